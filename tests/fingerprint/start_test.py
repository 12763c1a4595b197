"""Changes a checkpoint while canopy_server reads it at start-up.

start_test.py SERVER

The files are overwritten in place or truncated as soon as the server has opened them. The server
must serve one of the checkpoints with the correct fingerprint, or print one line and exit with 2.
"""

import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from fingerprint import fingerprint

SERVER: Final = Path(sys.argv[1]).absolute()
TIMEOUT_SECONDS: Final = 60
POLL_SECONDS: Final = 0.001  # reading the files takes tens of milliseconds
HIDDEN: Final = 16
VOCABULARY: Final = 600_000  # 38 MB of embedding: read in three steps
CONFIG: Final[dict[str, Any]] = {
    "architectures": ["LlamaModel"],
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
SHAPES: Final = {
    "model.embed_tokens.weight": [VOCABULARY, HIDDEN],
    "model.layers.0.input_layernorm.weight": [HIDDEN],
    "model.layers.0.mlp.down_proj.weight": [HIDDEN, 8],
    "model.layers.0.mlp.gate_proj.weight": [8, HIDDEN],
    "model.layers.0.mlp.up_proj.weight": [8, HIDDEN],
    "model.layers.0.post_attention_layernorm.weight": [HIDDEN],
    **{f"model.layers.0.self_attn.{name}_proj.weight": [16, HIDDEN] for name in "qkvo"},
    "model.norm.weight": [HIDDEN],
}


def weights(value: float) -> bytes:
    """Returns a safetensors file in which all elements are equal."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape in SHAPES.items():
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + struct.pack("<f", value) * (end // 4)


def checkpoint_folder() -> tempfile.TemporaryDirectory[str]:
    """Makes a folder that contains only the configuration."""
    temporary = tempfile.TemporaryDirectory()
    (Path(temporary.name) / "config.json").write_text(json.dumps(CONFIG))
    return temporary


def fingerprint_of(content: bytes) -> str:
    with checkpoint_folder() as folder:
        (Path(folder) / "model.safetensors").write_bytes(content)
        return fingerprint(Path(folder))


class StartTest(unittest.TestCase):
    contents: ClassVar[list[bytes]]
    fingerprints: ClassVar[list[str]]

    @classmethod
    def setUpClass(cls) -> None:
        cls.contents = [weights(0.25), weights(0.5)]
        cls.fingerprints = [fingerprint_of(content) for content in cls.contents]

    def setUp(self) -> None:
        temporary = checkpoint_folder()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.file = self.folder / "model.safetensors"

    def start(self, source: Path) -> subprocess.Popen[str]:
        command = [str(SERVER), f"--model=m={source}", "--listen=127.0.0.1:0", "--device=cpu"]
        # With the measured policy, the server would measure routes at every start.
        command.append("--policy=reference")
        pipe = subprocess.PIPE
        server = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        return server

    def has_open(self, server: subprocess.Popen[str]) -> bool:
        """Returns True if the server has the tensors' file open."""
        descriptors = f"/proc/{server.pid}/fd"
        try:
            names = os.listdir(descriptors)
        except OSError:  # the server has exited
            return False
        for name in names:
            try:
                target = os.readlink(f"{descriptors}/{name}")
            except OSError:
                continue
            if target == str(self.file.resolve()):
                return True
        return False

    def wait_until_open(self, server: subprocess.Popen[str]) -> bool:
        """Waits until the server has opened the tensors' file.

        Returns False if that was not observed. On a busy machine the server may read the whole
        file, and print its address or exit, between two checks.
        """
        assert server.stdout is not None
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while server.poll() is None and time.monotonic() < deadline:
            if self.has_open(server):
                return True
            if select.select([server.stdout], [], [], POLL_SECONDS)[0]:
                return False
        return False

    def read_bytes(self, server: subprocess.Popen[str]) -> int:
        """Returns the number of bytes that the server has read from files and pipes."""
        try:
            text = Path(f"/proc/{server.pid}/io").read_text()
        except OSError:  # the server has exited
            return 0
        found = re.search(r"^rchar: (\d+)$", text, re.MULTILINE)
        return int(found[1]) if found is not None else 0

    def served_or_refused(self, server: subprocess.Popen[str]) -> str:
        """Returns the fingerprint that is served, or "" if the server exited as it should."""
        assert server.stdout is not None
        assert server.stderr is not None
        if server.stdout.readline().startswith("listening on "):
            server.terminate()
            log = server.communicate(timeout=TIMEOUT_SECONDS)[1]
            found = re.search(r"fingerprint[\"=: ]+([0-9a-f]{16})", log)
            assert found is not None, log
            return found[1]
        log = server.communicate(timeout=TIMEOUT_SECONDS)[1]
        self.assertEqual(server.returncode, 2, log)
        self.assertRegex(log, r"(?m)^canopy_server: [^\n]*model\.safetensors[^\n]*$")
        return ""

    def change_while_it_starts(self, change: Callable[[], object]) -> str:
        self.file.write_bytes(self.contents[0])
        server = self.start(self.folder)
        self.wait_until_open(server)
        change()
        return self.served_or_refused(server)

    def test_a_file_that_is_overwritten_gives_one_checkpoint_or_exit_code_2(self) -> None:
        for _ in range(4):
            served = self.change_while_it_starts(lambda: self.file.write_bytes(self.contents[1]))
            self.assertIn(served, ["", *self.fingerprints])

    def test_the_second_half_alone_is_never_served(self) -> None:
        def overwrite_the_second_half() -> None:
            with self.file.open("r+b") as file:
                half = len(self.contents[1]) // 2
                file.seek(half)
                file.write(self.contents[1][half:])

        mixed = self.contents[0][: len(self.contents[0]) // 2]
        mixed += self.contents[1][len(mixed) :]
        whole = [fingerprint_of(mixed), self.fingerprints[0]]
        for _ in range(4):
            # The mixture on the disk after the write is also a valid checkpoint, with its own
            # fingerprint.
            served = self.change_while_it_starts(overwrite_the_second_half)
            self.assertIn(served, ["", *whole])

    def test_a_file_that_is_cut_short_gives_exit_code_2(self) -> None:
        for size in (0, 1_000, 20_000_000):
            served = self.change_while_it_starts(partial(os.truncate, self.file, size))
            self.assertIn(served, ["", self.fingerprints[0]])

    def test_a_deleted_working_folder_gives_one_line_and_exit_code_2(self) -> None:
        script = 'mkdir "$1" && cd "$1" && rmdir "$1" && shift && exec "$@"'
        for flag in ("--version", f"--model={self.folder}"):
            command = ["sh", "-c", script, "sh", str(self.folder / "deleted"), str(SERVER), flag]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
            self.assertEqual(ended.returncode, 2, ended.stderr)
            self.assertRegex(ended.stderr, r"\Acanopy_server: the working folder[^\n]*\n\Z")

    def test_sigterm_ends_the_reading_of_a_very_large_file(self) -> None:
        config = CONFIG | {"vocab_size": 1 << 24, "hidden_size": 32}  # 2 GB of zeros
        (self.folder / "config.json").write_text(json.dumps(config))
        size = 4 * 32 << 24
        shape = [1 << 24, 32]
        header = {
            "embed_tokens.weight": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}
        }
        text = json.dumps(header).encode()
        self.file.write_bytes(struct.pack("<Q", len(text)) + text)
        os.truncate(self.file, 8 + len(text) + size)
        server = self.start(self.folder)
        self.assertTrue(self.wait_until_open(server), "2 GB were read between two looks")
        server.send_signal(signal.SIGTERM)
        # The bytes read are measured instead of the time, so that a busy machine does not matter.
        bytes_read = 0
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while server.poll() is None and time.monotonic() < deadline:
            bytes_read = max(bytes_read, self.read_bytes(server))
        server.communicate(timeout=TIMEOUT_SECONDS)
        self.assertLess(bytes_read, size)
        self.assertNotEqual(server.returncode, -signal.SIGBUS)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

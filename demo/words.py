"""English words for the spelling tasks. tasks.py adds made-up words."""

from typing import Final

_LIST: Final = """
    acorn admire anchor apple arrow artist autumn bacon badge baker bamboo banana barrel basket
    beach beacon beaver bench berry bishop blanket blossom border bottle branch bread breeze brick
    bridge bright bronze brother brush bucket butter button cabin cable camera candle canoe canopy
    canvas carbon carpet castle cattle cellar cement cherry chess chief circle citrus clock cloud
    clover coast cobalt coffee comet copper coral cotton cradle crane crayon cream cricket crown
    crystal cushion dancer danger debate decade depth desert dinner dolphin donkey dragon drawer
    dream driver eagle earth echo elbow ember engine escape evening fabric falcon farmer feather
    ferry fiddle field finger flame flute forest fossil fountain frost galaxy garden garlic giant
    ginger glacier glass globe goat grain granite grape gravel guitar hammer harbor harvest hazel
    helmet heron hill hollow honest honey horse hotel hunter insect island ivory jacket jasmine
    jelly jewel journey jungle kernel kettle kitchen kitten knight ladder lagoon lantern laser
    lemon leopard letter linen lizard lobster locket lumber magnet maple marble market meadow
    melon metal mirror mitten monkey morning motor mountain music napkin needle nickel noble north
    number oasis ocean olive onion orange orchard otter oyster paddle palace panther paper parrot
    pebble pencil pepper piano picnic pigeon pillow pirate planet plaza pocket poet pond poplar
    potato prairie pumpkin puzzle quartz queen quiet rabbit radio raven recipe ribbon river robin
    rocket saddle sailor salmon sandal school scissor shadow shell shield signal silver singer
    sister sketch smoke socket spider spring spruce square stable statue stone storm stove summer
    sunset table talent tailor teapot temple thunder ticket tiger timber tomato tower trail tulip
    tunnel turtle valley vanilla velvet village violet violin wagon walnut water whale wheat window
    winter wizard wolf wonder yellow zebra
"""

WORDS: Final[tuple[str, ...]] = tuple(_LIST.split())

"""Imported after everything else, this module takes what stands by then from Python's collector (`loading`), for this
process and for those that it forks."""

import gc

gc.freeze()

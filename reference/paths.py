"""Where the project's files lie. No other file of this folder names one."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent

VECTORS = ROOT / "tests/vectors"
PEER_RULES = ROOT / "tests/sampler/processors.rs"  # its list OTHERS: the peers' cases that follow another rule

EXP = ROOT / "src/core/exp.rs"
LN = ROOT / "src/core/ln.rs"
FAST = ROOT / "src/core/fast/level.rs"
NUCLEUS = ROOT / "src/core/fast/nucleus.rs"
ROWS = ROOT / "src/kernels/rows.rs"
SPLITMIX = ROOT / "src/core/splitmix.rs"
MODEL = ROOT / "server/src/model/kernels/elementary.rs"  # the model's exp, cos and sin

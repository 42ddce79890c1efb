"""`python -m broker.config` prints conf/broker.toml."""

import sys

from broker.config.sample import sample_file

sys.stdout.write(sample_file())

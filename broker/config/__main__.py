"""`python -m broker.config` prints conf/broker.toml."""

import sys

from broker.config.document import sample_file

sys.stdout.write(sample_file())

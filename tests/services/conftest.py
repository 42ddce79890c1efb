"""A broker around each service."""

from tests.kit.store_broker import broker as broker

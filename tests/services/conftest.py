"""A broker around each service."""

from tests.fakes.store_broker import broker as broker

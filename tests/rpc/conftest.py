"""A broker for the methods of the API."""

from tests.fakes.store_broker import broker as broker

"""What offline tools know of a golden store before they open its files."""

from broker.format.index_layout import IndexGeometry
from broker.tools.store_access import Sizes
from tests.golden_stores import GoldenStores


def golden_tool_sizes(golden: GoldenStores, name: str) -> Sizes:
    """The sizes a store was written with."""
    params = golden.manifest(name)["params"]
    return Sizes(
        params["mappedFileSizeCommitLog"],
        params["mappedFileSizeConsumeQueue"],
        IndexGeometry(params["maxHashSlotNum"], params["maxIndexNum"]),
        "5.3" if name == "v533" else "5.5",
        "UTC",
    )

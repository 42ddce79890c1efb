"""What asserts in the cases of official clients say is shown as it is of tests."""

import pytest

pytest.register_assert_rewrite("tests.e2e.official.cases")

"""Failing asserts in the cases of official clients are shown as those of tests are."""

import pytest

pytest.register_assert_rewrite("tests.e2e.official.cases")

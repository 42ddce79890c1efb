"""Values of Admin's client: what is not said stays as it is."""

from broker.client.admin_values import GroupSettings, ResetTarget, TopicChange


def test_a_change_of_nothing_names_nothing() -> None:
    assert set(TopicChange()) == {None, ()}
    assert set(GroupSettings()) == {None}


def test_a_reset_without_a_word_leads_to_the_earliest() -> None:
    assert ResetTarget() == (None, None, False)

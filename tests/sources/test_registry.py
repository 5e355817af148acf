import pytest

from trace_flywheel.sources import registry


def test_readers_are_found_in_order_of_precedence() -> None:
    found = [(reader.format, reader.precedence) for reader in registry.READERS]
    assert found == [("benchflow", 10), ("harbor", 20), ("eval_run", 30), ("atraj", 40)]


def test_a_reader_is_known_by_its_format() -> None:
    assert registry.reader("harbor").format == "harbor"
    with pytest.raises(KeyError):
        registry.reader("none")

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-snapshots",
        action="store_true",
        help="write the texts that snapshots hold anew; the tests fail, so that this is never left on",
    )

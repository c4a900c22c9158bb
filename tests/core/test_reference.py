from scripts.reference import pages


def test_the_reference_pages_say_what_the_code_says():
    stale = [page.name for page, text in pages().items() if page.read_text() != text]
    assert stale == [], "run: python -m scripts.reference"

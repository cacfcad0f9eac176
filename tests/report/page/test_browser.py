"""The report in a browser: every control by mouse and by keyboard, in any size, colour and medium.

Skipped where Chromium and its driver aren't installed.
"""

import shutil
from contextlib import contextmanager

import pytest
from logged_runs import HYBRID, SCRIPT, made_up

from ladder_eval.report.page.write import write_report

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium isn't installed")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

WIDE, NARROW = (1400, 1000), (390, 844)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The page of a run of three models on three tasks, with times."""
    folder = tmp_path_factory.mktemp("browser")
    return write_report([made_up(folder / "run")], folder / "report")


@pytest.fixture(scope="module")
def browser():
    driver = shutil.which("chromedriver")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if not (driver and program):
        pytest.skip("Chromium or its driver (chromium, chromedriver) isn't installed")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    yield started
    started.quit()


@pytest.fixture
def page(browser, report):
    """The report, opened anew in a wide window; no test may leave errors in the console."""
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    resize(browser, WIDE)
    browser.get(report.as_uri())
    yield browser
    assert browser.get_log("browser") == []


def resize(browser, size):
    """Chromium's own windows can't be as narrow as a phone."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


@contextmanager
def emulated(browser, command, **changes):
    """A state of the browser that is undone afterwards."""
    undone = {"value": False} if "value" in changes else {"media": "", "features": []}
    browser.execute_cdp_cmd(command, changes)
    try:
        yield
    finally:
        browser.execute_cdp_cmd(command, undone)


def preferring(browser, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    return emulated(browser, "Emulation.setEmulatedMedia", features=features)


def shown(browser):
    """(task, number) of the documents that are shown."""
    found = browser.execute_script(
        "return [...document.querySelectorAll('.document')].filter(each => each.checkVisibility())"
        ".map(each => each.querySelector('.where').textContent.split(' '))"
    )
    return {(task, int(number)) for task, number in found}


def control(browser, name):
    return browser.find_element(By.CSS_SELECTOR, f"#explorer-filters [name={name}]")


def count(browser):
    return browser.find_element(By.ID, "explorer-count").text


def press(browser, *keys):
    """Keys for whatever has the focus."""
    browser.switch_to.active_element.send_keys(*keys)


def focus_by_tab(browser, element, most=400):
    """Move the focus with the tabulator alone, from the beginning of the page."""
    browser.execute_script("document.activeElement.blur(); scrollTo(0, 0)")
    start = browser.find_element(By.CLASS_NAME, "skip")
    browser.execute_script("arguments[0].focus()", start)
    for _ in range(most):
        if browser.switch_to.active_element == element:
            return
        press(browser, Keys.TAB)
    raise AssertionError(f"{element.get_attribute('outerHTML')[:200]} can't be reached by keys")


def outline(browser):
    """Width of the outline around what has the focus, in pixels."""
    width = "return parseFloat(getComputedStyle(document.activeElement).outlineWidth)"
    return browser.execute_script(width)


ARC = {("arc", i) for i in range(6)}
SUMS = {("sums", i) for i in range(2)}
ALL = ARC | SUMS | {("wiki", 0)}


FILTERED = (
    ({}, ALL),
    ({"task": "arc"}, ARC),
    ({"change": "flips only"}, {("arc", 2), ("arc", 3), ("arc", 4), ("arc", 5), ("sums", 1)}),
    ({"change": "gained only"}, {("arc", 4), ("arc", 5), ("sums", 1)}),
    ({"change": "lost only"}, {("arc", 2), ("arc", 3)}),
    ({"candidate": "ladder", "change": "gained only"}, {("arc", 4), ("sums", 1)}),
    ({"candidate": "ladder", "change": "lost only"}, {("arc", 2), ("arc", 3)}),
    ({"candidate": HYBRID, "change": "flips only", "task": "arc"}, {("arc", 3), ("arc", 5)}),
    ({"candidate": "ladder"}, ALL),
)


def test_filters_leave_what_they_should(page):
    for wanted, left in FILTERED:
        for name, text in wanted.items():
            Select(control(page, name)).select_by_visible_text(text)
        assert shown(page) == left, wanted
        assert count(page) == f"{len(left)} of 9 documents shown"
        hidden = page.find_elements(By.CSS_SELECTOR, "#explorer [data-candidate][hidden]")
        assert bool(hidden) == ("candidate" in wanted)
        click(page, page.find_element(By.CSS_SELECTOR, "#explorer-filters [type=reset]"))
        WebDriverWait(page, 5).until(lambda driver: count(driver) == "9 of 9 documents shown")


def test_documents_open_and_close_by_mouse(page):
    first = page.find_element(By.CSS_SELECTOR, ".document")
    page.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", first
    )
    first.find_element(By.TAG_NAME, "summary").click()
    assert first.find_element(By.TAG_NAME, "pre").is_displayed()
    click(page, control(page, "open"))
    opened = page.find_elements(By.CSS_SELECTOR, ".document[open]")
    assert len(opened) == 9
    click(page, control(page, "close"))
    assert not page.find_elements(By.CSS_SELECTOR, ".document[open]")


def test_explorer_by_keys_alone(page):
    focus_by_tab(page, control(page, "candidate"))
    assert outline(page) >= 2
    press(page, "ladder")
    press(page, Keys.TAB)
    press(page, "sums")
    assert shown(page) == SUMS
    press(page, Keys.TAB)
    press(page, "gained")
    assert shown(page) == {("sums", 1)}
    press(page, Keys.TAB)
    press(page, "no such text")
    assert count(page) == "0 of 9 documents shown"
    press(page, Keys.TAB)
    press(page, Keys.ENTER)  # Clear
    WebDriverWait(page, 5).until(lambda driver: count(driver) == "9 of 9 documents shown")
    press(page, Keys.SHIFT, Keys.TAB)
    press(page, "IS IT 7")
    assert shown(page) == set()
    press(page, Keys.CONTROL, "a")
    press(page, "It is 7")
    assert shown(page) == {("sums", 1)}
    press(page, Keys.TAB, Keys.TAB)
    press(page, Keys.SPACE)  # Open all
    assert len(page.find_elements(By.CSS_SELECTOR, ".document[open]")) == 1
    press(page, Keys.TAB)
    press(page, Keys.SPACE)  # Close all
    assert not page.find_elements(By.CSS_SELECTOR, ".document[open]")
    press(page, Keys.TAB)
    assert outline(page) >= 1
    press(page, Keys.ENTER)
    (opened,) = page.find_elements(By.CSS_SELECTOR, ".document[open]")
    assert SCRIPT in opened.text
    assert page.find_element(By.ID, "explorer-count").get_attribute("aria-live") == "polite"


SORTED = """
const heading = arguments[0].parentElement, body = heading.closest("table").tBodies[0];
const cells = [...body.rows].map(row => row.cells[heading.cellIndex].textContent.trim());
return [heading.getAttribute("aria-sort"), cells];
"""


def as_number(text):
    try:
        return float(text.replace("−", "-").split()[0].rstrip("%"))
    except (ValueError, IndexError):
        return None


def test_every_table_sorts_by_mouse_and_keys(page):
    page.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    tables = page.find_elements(By.CSS_SELECTOR, "table.sortable")
    assert tables
    sorted_by_number = 0
    for table in tables:
        for button in table.find_elements(By.CSS_SELECTOR, "thead th button"):
            click(page, button)
            order, up = page.execute_script(SORTED, button)
            assert order == "ascending"
            button.send_keys(Keys.ENTER)
            order, down = page.execute_script(SORTED, button)
            assert order == "descending"
            values = [as_number(text) for text in up]
            if values and None not in values:
                assert values == sorted(values)
                assert [as_number(text) for text in down] == sorted(values, reverse=True)
                sorted_by_number += len(set(values)) > 1
    assert sorted_by_number > 3


def click(browser, element):
    """A click in the middle of the window, where nothing covers what is clicked."""
    move = "arguments[0].scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'})"
    browser.execute_script(move, element)
    element.click()


FOCUS = """
const each = document.activeElement, style = getComputedStyle(each);
const found = [each.matches(":focus-visible"), style.outlineStyle, parseFloat(style.outlineWidth)];
const first = !each.hasAttribute("data-visited");
each.setAttribute("data-visited", "");
return [each === document.body, first, found, each.outerHTML.slice(0, 120)];
"""


def test_keys_reach_everything_and_show_where_they_are(page):
    wanted = page.execute_script(
        "return [...document.querySelectorAll('a, button, select, input, summary, [tabindex]')]"
        ".filter(each => each.checkVisibility()).length"
    )
    reached = 0
    press(page, Keys.TAB)
    for _ in range(wanted):
        is_body, first, (is_visible, style, width), about = page.execute_script(FOCUS)
        assert first, about
        assert not is_body
        assert is_visible, about
        assert style != "none", about
        assert width >= 1, about
        reached += 1
        press(page, Keys.TAB)
    assert reached == wanted
    assert page.execute_script(FOCUS)[:2] != [False, True]  # there is nothing else


def test_folded_parts_open_by_keys_and_links_jump(page):
    summaries = page.find_elements(By.CSS_SELECTOR, "main details:not(.document) > summary")
    assert summaries
    for summary in summaries:
        page.execute_script("arguments[0].focus()", summary)
        press(page, Keys.ENTER)
        assert summary.find_element(By.XPATH, "..").get_attribute("open")
        click(page, summary)
        assert not summary.find_element(By.XPATH, "..").get_attribute("open")
    page.execute_script("scrollTo({top: 0, behavior: 'instant'})")
    for link in page.find_elements(By.CSS_SELECTOR, "nav a, .skip"):
        page.execute_script("arguments[0].focus()", link)
        press(page, Keys.ENTER)
        assert page.current_url.endswith(link.get_dom_attribute("href"))


def test_every_link_leads_somewhere(page, report):
    for link in page.find_elements(By.CSS_SELECTOR, "a[href]"):
        place = link.get_dom_attribute("href")
        if place.startswith("#"):
            assert page.find_elements(By.ID, place[1:]), place
        else:
            assert (report.parent / place.partition("#")[0]).is_file(), place


def test_a_documents_page_opens_at_the_document(page):
    first = page.find_element(By.CSS_SELECTOR, ".document")
    page.execute_script("arguments[0].open = true", first)
    where = first.find_element(By.CLASS_NAME, "where").text
    click(page, first.find_element(By.CSS_SELECTOR, ".facts a"))
    (opened,) = page.find_elements(By.CSS_SELECTOR, ".document[open]")
    assert opened.find_element(By.CLASS_NAME, "where").text == where
    click(page, page.find_element(By.LINK_TEXT, "All tasks"))
    assert page.find_element(By.TAG_NAME, "h1").text == "All documents"
    click(page, page.find_element(By.LINK_TEXT, "sums"))
    assert page.find_element(By.TAG_NAME, "h1").text == "sums"


def test_nothing_scrolls_sideways(page):
    unfold = "for (const each of document.querySelectorAll('details')) each.open = arguments[0]"
    widths = "return [document.documentElement.scrollWidth, window.innerWidth]"
    for size in (WIDE, NARROW):
        resize(page, size)
        for opened in (False, True):
            page.execute_script(unfold, opened)
            width, window = page.execute_script(widths)
            assert window == size[0]
            assert width <= window, (size, opened)


def background(browser):
    """Brightness of the page's background, 0 to 255."""
    color = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    return max(map(int, color.removeprefix("rgb(").removesuffix(")").split(", ")))


def test_dark_where_the_reader_wants_it(page):
    with preferring(page, "light"):
        light = background(page)
    with preferring(page, "dark"):
        dark = background(page)
    assert light > 200
    assert dark < 80


def test_print_leaves_controls_out(page):
    assert page.find_element(By.ID, "explorer-filters").is_displayed()
    with emulated(page, "Emulation.setEmulatedMedia", media="print"):
        for control_of in ("#explorer-filters", "nav"):
            assert not page.find_element(By.CSS_SELECTOR, control_of).is_displayed()
        assert page.find_element(By.CSS_SELECTOR, "#documents .document").is_displayed()
        assert background(page) == 255


def test_nothing_is_lost_without_scripts(browser, report):
    with emulated(browser, "Emulation.setScriptExecutionDisabled", value=True):
        browser.get(report.as_uri())
        assert not browser.find_element(By.ID, "explorer-filters").is_displayed()
        assert not browser.find_elements(By.CSS_SELECTOR, "thead th button")
        documents = browser.find_elements(By.CSS_SELECTOR, ".document")
        assert len(documents) == 9
        for each in documents:
            click(browser, each.find_element(By.TAG_NAME, "summary"))  # opens without scripts
        texts = [each.text for each in documents]
        assert all(
            each.is_displayed() for each in browser.find_elements(By.CSS_SELECTOR, ".plot img")
        )
    assert sum("What colour has flower 2?" in text for text in texts) == 1
    assert sum(f"It is 7. {SCRIPT}" in text for text in texts) == 1
    assert sum("word_perplexity 7.389, over 50 words" in text for text in texts) == 1


def test_nothing_is_asked_of_a_network(page):
    entries = "return performance.getEntriesByType('resource').map(each => each.name)"
    assert [name for name in page.execute_script(entries) if not name.startswith("data:")] == []
    asked = [
        entry["message"]
        for entry in page.get_log("performance")
        if '"Network.requestWillBeSent"' in entry["message"]
    ]
    assert len(asked) > 0  # the page itself, so that the log is known to be one
    assert not [each for each in asked if '"url":"http' in each]


def test_what_a_model_wrote_is_never_run(page, report):
    assert page.execute_script("return window.ran") is None
    assert not page.find_elements(By.CSS_SELECTOR, "#explorer img, #explorer script")
    names = Select(control(page, "candidate")).options
    assert [each.text for each in names] == ["all", "ladder", HYBRID]
    page.get((report.parent / "samples" / "1-run" / "sums-1.html").as_uri())
    assert page.execute_script("return window.ran") is None
    assert not page.find_elements(By.CSS_SELECTOR, "img, script")


def test_plots_are_drawn_with_scripts(page):
    plots = page.find_elements(By.CSS_SELECTOR, ".plot script[type='application/json']")
    charts = WebDriverWait(page, 20).until(
        lambda driver: (
            (
                len(found := driver.find_elements(By.CSS_SELECTOR, ".plot .chart svg"))
                == len(plots)
                and found
            )
            or not plots
        )
    )
    assert plots
    assert all(each.is_displayed() for each in charts)

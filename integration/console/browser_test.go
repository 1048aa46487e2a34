package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
)

// patience ends a test that hangs. A page takes far less for anything, also on a busy machine.
const patience = time.Minute

// chromium is the browser that all tests share.
var chromium browser

type browser struct {
	once  sync.Once
	ctx   context.Context //nolint:containedctx // chromedp keeps a browser in it
	close func()
	err   error
}

// chromiums serve as a browser. Ubuntu's chromium-browser does not: it only asks for a snap.
var chromiums = []string{
	"chromium-headless-shell", "chromium", "google-chrome", "google-chrome-stable",
	"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium",
}

func findChromium() (path string, err error) {
	for _, name := range chromiums {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no Chromium is installed: %w", err)
}

func init() { chromium.close = func() {} }

func (b *browser) start() {
	path, err := findChromium()
	if err != nil {
		b.err = err
		return
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path),
		chromedp.WindowSize(1600, 1000), chromedp.Flag("host-resolver-rules", "MAP ops.example 127.0.0.1"),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true))
	if os.Geteuid() == 0 { // Chromium's sandbox refuses root
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, quit := chromedp.NewContext(allocator)
	b.ctx, b.close = ctx, func() {
		_ = chromedp.Cancel(ctx)
		quit()
		stop()
	}
	b.err = chromedp.Do(ctx)
}

// tab is one page with cookies of its own. It records the errors and requests that a page must not cause.
type tab struct {
	t   testing.TB
	ctx context.Context //nolint:containedctx // chromedp keeps a tab in it

	mu     sync.Mutex
	faults []string
}

// newTab opens a tab, which the test's end closes. Scripts that throw, refusals of the content security policy and
// dialogs fail the test.
func newTab(t testing.TB) *tab {
	t.Helper()
	b := recordingTab(t)
	t.Cleanup(func() {
		for _, fault := range b.recorded() {
			t.Errorf("the browser reports: %s", fault)
		}
	})
	return b
}

// recordingTab is newTab for a test that expects faults.
func recordingTab(t testing.TB) *tab {
	t.Helper()
	chromium.once.Do(chromium.start)
	servertest.Need(t, chromium.err)
	b := &tab{t: t}
	ctx, cancel := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.record))
	t.Cleanup(cancel)
	b.ctx = ctx
	if err := chromedp.Do(ctx); err != nil { // without a timeout: it is the tab's life
		t.Fatal(err)
	}
	return b
}

func (b *tab) record(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.fault((&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			b.fault(fmt.Sprintf("console.%s: %s", e.Type, consoleText(e.Args)))
		}
	case *log.EventEntryAdded:
		// A status that is an error is for the test to judge.
		if e.Entry.Source != log.EntrySourceNetwork && (e.Entry.Level == log.EntryLevelError ||
			e.Entry.Level == log.EntryLevelWarning) {
			b.fault(fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *page.EventJavascriptDialogOpening:
		b.fault("dialog: " + e.Message)
		go func() {
			_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
		}()
	}
}

func consoleText(args []*runtime.RemoteObject) string {
	var words []string
	for _, arg := range args {
		words = append(words, string(arg.Value)+arg.Description)
	}
	return strings.Join(words, " ")
}

func (b *tab) fault(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, text)
}

func (b *tab) recorded() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.faults)
}

// forget drops the recorded faults.
func (b *tab) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = nil
}

// run takes one action in a tab. It repeats an action that the browser refused because it replaced the document
// meanwhile.
func run[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	result, err := try(b, patience, action)
	for end := time.Now().Add(patience); replaced(err) && time.Now().Before(end); result, err = try(b, patience, action) {
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		b.t.Fatalf("in the browser, at %s: %v\n%s", b.url(), err, b.text("body"))
	}
	return result
}

// replaced reports that the document went away between two commands: a node or a script's context is no longer known.
func replaced(err error) bool {
	var refused *cdproto.Error
	return errors.As(err, &refused) && refused.Code == -32000
}

func try[T any](b *tab, within time.Duration, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// command sends one command of the protocol to a tab.
func command[P, R any](b *tab, cmd cdp.Command[P, R], params P) R {
	b.t.Helper()
	return run(b, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, cmd, params) })
}

// visit loads a page and returns its status.
func (b *tab) visit(url string) int {
	b.t.Helper()
	return b.load(chromedp.Navigate(url))
}

// click clicks an element if a visitor could: it is visible and nothing covers it. It is one script, because a live
// page may replace a node, or move it, between two commands.
const click = `(() => {
	const e = %s;
	if (!e) return 'it is missing';
	e.scrollIntoView({block: 'center', behavior: 'instant'});
	const [box] = e.getClientRects();
	if (!box) return 'it is hidden';
	const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
	if (!e.contains(top)) return 'it is covered by ' + (top ? top.outerHTML.slice(0, 200) : 'nothing');
	e.click();
	return '';
})()`

// follow clicks the element that sel selects and waits for the next page.
func (b *tab) follow(sel string) int {
	b.t.Helper()
	return b.followElement(fmt.Sprintf("document.querySelector(%q)", sel))
}

// followText follows the first link whose visible text begins with text.
func (b *tab) followText(text string) int {
	b.t.Helper()
	return b.followElement(fmt.Sprintf("[...document.querySelectorAll('nav a, main a')].find(e => "+
		"e.textContent.trim().startsWith(%q))", text))
}

// followElement clicks the element that an expression finds and waits for the next page.
func (b *tab) followElement(found string) int {
	b.t.Helper()
	return b.load(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		for {
			refused, err := chromedp.Evaluate[string](fmt.Sprintf(click, found))(ctx, t)
			if err == nil && refused == "" || err != nil && !replaced(err) {
				return chromedp.Void{}, err
			}
			if !pause.For(ctx, 20*time.Millisecond) {
				return chromedp.Void{}, fmt.Errorf("clicking %s: %s: %w", found, refused, errors.Join(err, ctx.Err()))
			}
		}
	})
}

// load takes an action and waits for the page that comes of it.
func (b *tab) load(action chromedp.Action[chromedp.Void]) int {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	response, err := chromedp.RunResponse(ctx, action)
	if err != nil {
		b.t.Fatalf("loading a page, at %s: %v\n%s", b.url(), err, b.text("body"))
	}
	return int(response.Status)
}

// fill types into the field that sel selects, after emptying it. A page does not update itself while a field has the
// focus.
func (b *tab) fill(sel, text string) {
	b.t.Helper()
	empty := fmt.Sprintf("(() => { const e = document.querySelector(%q); e?.focus(); if (e) e.value = ''; return e !== "+
		"null && document.activeElement === e })()", sel)
	typed := fmt.Sprintf("document.querySelector(%q)?.value === %q", sel, text)
	for end := time.Now().Add(patience); !run(b, chromedp.Evaluate[bool](empty)) || !typeKeys(b, text) ||
		!run(b, chromedp.Evaluate[bool](typed)); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("no %q in %s within %s at %s:\n%s", text, sel, patience, b.url(), b.text("body"))
		}
	}
}

// typeKeys types into the element that has the focus.
func typeKeys(b *tab, text string) bool {
	b.t.Helper()
	run(b, chromedp.KeyEvent(text))
	return true
}

func (b *tab) url() string {
	url, _ := try(b, patience, chromedp.Location())
	return url
}

// text is the visible text of the elements that sel selects.
func (b *tab) text(sel string) string {
	script := fmt.Sprintf("[...document.querySelectorAll(%q)].map(e => e.innerText).join('\\n')", sel)
	text, _ := try(b, patience, chromedp.Evaluate[string](script))
	return text
}

// html is the source of the page as the browser has it.
func (b *tab) html() string {
	b.t.Helper()
	return run(b, chromedp.Evaluate[string]("document.documentElement.outerHTML"))
}

// links are the addresses that the page links to, without those within the page.
func (b *tab) links() []string {
	b.t.Helper()
	return run(b, chromedp.Evaluate[[]string]("[...document.querySelectorAll('a[href]')].filter(a => "+
		"!a.getAttribute('href').startsWith('#')).map(a => a.href)"))
}

// count counts the elements that sel selects.
func (b *tab) count(sel string) int {
	b.t.Helper()
	return run(b, chromedp.Evaluate[int](fmt.Sprintf("document.querySelectorAll(%q).length", sel)))
}

// sees waits until the page's text has a part.
func (b *tab) sees(part string) {
	b.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(b.text("body"), part); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("no %q within %s at %s:\n%s", part, patience, b.url(), b.text("body"))
		}
	}
}

// overflow is by how many pixels the page is wider than its window.
func (b *tab) overflow() int {
	b.t.Helper()
	return run(b, chromedp.Evaluate[int]("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
}

func (b *tab) resize(width, height int64) {
	b.t.Helper()
	run(b, chromedp.EmulateViewport(width, height))
}

// scheme is "light" or "dark".
func (b *tab) scheme(name string) {
	b.t.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
}

func (b *tab) withoutScript() {
	b.t.Helper()
	command(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

// axe is axe-core, which make browser installs here.
var axe = sync.OnceValues(func() (string, error) {
	script, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	return string(script), err
})

// violation is a broken rule in the report of axe-core, with the fields that the tests print.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

func (v violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s", v.ID, v.Impact, v.Help)
	for _, n := range v.Nodes[:min(3, len(v.Nodes))] {
		fmt.Fprintf(&b, "\n\t%.300s\n\t%s", n.HTML, strings.ReplaceAll(n.FailureSummary, "\n", "\n\t"))
	}
	return b.String()
}

// violations are the rules of axe-core that the page breaks.
func (b *tab) violations() []violation {
	b.t.Helper()
	script, err := axe()
	servertest.Need(b.t, err)
	run(b, chromedp.Evaluate[chromedp.Void](script))
	return run(b, chromedp.Evaluate[[]violation]("axe.run({resultTypes: ['violations']}).then(r => r.violations)",
		chromedp.EvalAwaitPromise))
}

// TestRecorder has pages commit the faults that the recorder and axe-core must notice. If they did not, no other test
// here could fail.
func TestRecorder(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, policy, page, want string
	}{
		{"a script that throws", "", "<script>throw new Error('oh')</script>", "oh"},
		{"a dialog", "", "<script>alert('hello')</script>", "dialog: hello"},
		{"a refused script", "default-src 'none'", "<script>1</script>", "security: "},
		{"a refused handler", "default-src 'none'", "<img src='x' onerror='1'>", "security: "},
		{"a refused style", "default-src 'none'", "<p style='color: red'>x</p>", "security: "},
		{"console.error", "", "<script>console.error('bad', 7)</script>", "bad"},
	}
	b := recordingTab(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Security-Policy", tt.policy)
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, tt.page)
			}))
			defer server.Close()
			if status := b.visit(server.URL); status != http.StatusOK {
				t.Errorf("status %d", status)
			}
			proctest.Eventually(t, time.Minute, "the recorded fault", func() bool {
				return slices.ContainsFunc(b.recorded(), func(fault string) bool { return strings.Contains(fault, tt.want) })
			})
			b.forget()
		})
	}
	b.visit("data:text/html,<p style='color: %23eee'>x</p>")
	if len(b.violations()) == 0 {
		t.Error("axe-core finds nothing wrong with light grey on white")
	}
}

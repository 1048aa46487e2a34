package console

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/strikesmq/strikes/internal/servertest"
)

// served is a console in a process of its own, which a test can kill.
type served struct {
	site
	process *os.Process
	ended   chan error
}

var printedURL = regexp.MustCompile(`https?://\S+`)

// serveCommand runs `strikes console` with args until the test ends.
func (p *plant) serveCommand(args ...string) *served {
	p.t.Helper()
	cmd := p.command(append([]string{"console", "--listen", "127.0.0.1:0"}, args...)...)
	out, err := cmd.StdoutPipe()
	need(p.t, err)
	s := &served{site: site{t: p.t, log: &logged{}}, ended: make(chan error, 1)}
	cmd.Stderr = s.log
	need(p.t, cmd.Start())
	s.process = cmd.Process
	found := make(chan string, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if url := printedURL.FindString(lines.Text()); url != "" {
				found <- strings.TrimSuffix(url, "/") + "/"
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
		s.ended <- cmd.Wait()
	}()
	p.t.Cleanup(func() {
		_ = s.process.Kill() // it has ended if the test went well
		<-done
	})
	select {
	case s.url = <-found:
	case <-done:
		p.t.Fatalf("strikes console ended: %s", s.log)
	case <-time.After(patience):
		p.t.Fatalf("strikes console printed no URL: %s", s.log)
	}
	return s
}

// TestCommand serves the console with the command: it asks for its token, makes only the changes that it allows, and
// stops when told.
func TestCommand(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	file := filepath.Join(t.TempDir(), "token")
	need(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	s := p.serveCommand("--token-file", file, "--allow", "limit")
	bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	for _, tt := range []struct {
		at     string
		change func(*http.Request)
		want   int
	}{
		{s.url, nil, http.StatusUnauthorized}, {s.url, bearer, http.StatusOK},
		{s.at("change", "verb", "limit", "queue", "q"), bearer, http.StatusOK},
		{s.at("change", "verb", "pause", "queue", "q"), bearer, http.StatusForbidden},
	} {
		if res := s.ask(http.MethodGet, tt.at, nil, tt.change); res.StatusCode != tt.want {
			t.Errorf("%s: status %d, want %d", tt.at, res.StatusCode, tt.want)
		}
	}
	need(t, s.process.Signal(syscall.SIGTERM))
	select {
	case err := <-s.ended:
		if err != nil {
			t.Errorf("after SIGTERM: %v: %s", err, s.log)
		}
	case <-time.After(patience):
		t.Error("it still runs after SIGTERM")
	}
}

// TestCommandNamesFlags: a finding names the flag of the command, and not the field of the library. A queue that does
// not exist is named at the start.
func TestCommandNamesFlags(t *testing.T) {
	t.Parallel()
	s := newPlant(t).serveCommand("--management-url", "http://127.0.0.1:1", "--queue", "orders", "--queue", "nope")
	page := s.page(s.at("doctor", "queue", "orders"))
	if !strings.Contains(page, "(--management-url)") || strings.Contains(page, "Check.") {
		t.Error(page)
	}
	if log := s.log.String(); !strings.Contains(log, `warning: there is no queue "nope"`) {
		t.Error(log)
	}
}

// TestCommandRefuses starts the console in ways that would leave it open to others.
func TestCommandRefuses(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	short := filepath.Join(t.TempDir(), "short")
	need(t, os.WriteFile(short, []byte("1234\n"), 0o600))
	for _, args := range [][]string{{"--listen", "0.0.0.0:0"}, {"--token-file", short}, {"--allow", "everything"}} {
		out, err := p.command(append([]string{"console"}, args...)...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 {
			t.Errorf("strikes console %v: %v, want exit code 2: %s", args, err, out)
		}
	}
}

// command is `strikes` with args on the plant's servers.
func (p *plant) command(args ...string) *exec.Cmd {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), servertest.Program(p.t, "cmd/strikes"), args...)
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "STRIKES_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, "AMQP_URL="+p.amqpURL, "STRIKES_STORE_URL="+p.storeURL, "STRIKES_PREFIX="+p.prefix,
		"STRIKES_MANAGEMENT_URL="+p.managementURL)
	return cmd
}

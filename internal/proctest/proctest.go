// Package proctest checks the files and processes that a test leaves behind, and where processes listen.
package proctest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/internal/poll"
)

// NothingLeft fails the test if files in dir, or processes that use it, do not disappear.
func NothingLeft(t *testing.T, dir string) {
	t.Helper()
	Within(t, time.Minute, func() error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if left = append(left, Users(t, dir)...); len(left) > 0 {
			return fmt.Errorf("left behind: %q", left)
		}
		return nil
	})
}

// Users lists the processes with dir in their command line or environment, as every child of package servers has.
func Users(t *testing.T, dir string) (users []string) {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "ps", "axwwe", "-o", "pid=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, dir+string(filepath.Separator)) {
			users = append(users, line[:min(len(line), 200)])
		}
	}
	return users
}

// Within polls f until it returns nil, also while the test cleans up.
func Within(t testing.TB, limit time.Duration, f func() error) {
	t.Helper()
	if err := poll.Until(context.WithoutCancel(t.Context()), limit, "a condition", f); err != nil {
		t.Fatal(err)
	}
}

// Eventually polls cond until it holds, also while the test cleans up.
func Eventually(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	Within(t, limit, func() error {
		if !cond() {
			return errors.New(what)
		}
		return nil
	})
}

// LoopbackOnly dials port on every address of this machine: where it is bound to 127.0.0.1, not even 127.0.0.2 answers.
func LoopbackOnly(t *testing.T, port string) {
	t.Helper()
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.1:"+port); err != nil {
		t.Errorf("no listener: %v", err)
	} else {
		_ = conn.Close()
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	ips := []net.IP{net.IPv4(127, 0, 0, 2)}
	for _, addr := range addrs {
		if ipNet, ok := addr.(*net.IPNet); ok && ipNet.IP.IsGlobalUnicast() {
			ips = append(ips, ipNet.IP)
		}
	}
	for _, ip := range ips {
		if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(),
			"tcp", net.JoinHostPort(ip.String(), port)); err == nil {
			t.Errorf("port %s listens on %s too: %v", port, ip, conn.Close())
		}
	}
}

package postgres

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/storetest"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestPgbouncer is the test of a Store behind a pgbouncer that gives each transaction any of two connections. With
// named prepared statements the Store fails there, and the error names the parameter.
func TestPgbouncer(t *testing.T) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("pgbouncer is not installed; make setup installs it with apt")
	}
	dir, err := os.MkdirTemp("/tmp", "strikes-pgbouncer-") // pgbouncer, as another user, cannot reach t.TempDir()
	need(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	addr := free.Addr().String()
	host, port, _ := net.SplitHostPort(servertest.PostgreSQL(t))
	_, listen, _ := net.SplitHostPort(addr)
	config := fmt.Sprintf("[databases]\n* = host=%s port=%s user=postgres\n[pgbouncer]\nlisten_addr=127.0.0.1\n"+
		"listen_port=%s\nauth_type=any\npool_mode=transaction\ndefault_pool_size=2\nunix_socket_dir=\n", host, port, listen)
	file := filepath.Join(dir, "ini")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil { // pgbouncer runs as another user
		t.Fatal(err)
	}
	args := []string{"-q", file}
	if os.Getuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bouncer := exec.Command(program, args...)
	bouncer.Stderr = os.Stderr
	need(t, free.Close())
	need(t, bouncer.Start())
	t.Cleanup(func() {
		_ = bouncer.Process.Signal(syscall.SIGTERM)
		_ = bouncer.Wait() // it was terminated
	})
	proctest.Eventually(t, 20e9, "pgbouncer", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	through := func(t testing.TB) string {
		return strings.Replace(migrated(t), net.JoinHostPort(host, port), addr, 1)
	}
	storetest.Run(t, func(t testing.TB) counter.Store { return open(t, through(t)) })
	named := through(t) + "&default_query_exec_mode=cache_statement"
	one, other := open(t, named), open(t, named)
	for i := 0; err == nil && i < 1000; i++ {
		for _, s := range []*Store{one, other} {
			_, _, failed := s.Load(t.Context(), counter.Queue{Name: "q"}, "r:a")
			err = errors.Join(err, failed)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "default_query_exec_mode=cache_describe") {
		t.Errorf("with named statements: %v", err)
	}
}

package servers

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

// databases start a database with an option.
var databases = map[string]func(context.Context, servers.DatabaseOptions) (*servers.Database, error){
	"PostgreSQL": servers.StartPostgreSQL, "MariaDB": servers.StartMariaDB,
}

// reachable is ownTemp for a database, which runs as another user if this test is root's.
func reachable(t *testing.T) {
	t.Helper()
	dir := ownTemp(t)
	for range 2 { // the one of this test, and that of its package
		need(t, os.Chmod(dir, 0o711))
		dir = filepath.Dir(dir)
	}
}

func TestDatabases(t *testing.T) {
	servertest.Long(t)
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			reachable(t)
			d := servertest.Own(t, start, servers.DatabaseOptions{})
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.Addr)
			need(t, err)
			defer conn.Close()
			_, port, _ := net.SplitHostPort(d.Addr)
			proctest.LoopbackOnly(t, port)
		})
	}
}

func TestDatabasesThatDoNotStart(t *testing.T) {
	servertest.Long(t)
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			reachable(t)
			d, err := start(t.Context(), servers.DatabaseOptions{Args: []string{"--no-such-option=1"}})
			if err == nil {
				t.Fatal("it started", d.Close())
			}
			if !strings.Contains(err.Error(), "no-such-option") && !strings.Contains(err.Error(), "no_such_option") {
				t.Errorf("the log's tail is missing: %v", err)
			}
		})
	}
}

// TestDatabaseThatIsNotReached: root's tests have databases run as the user nobody.
func TestDatabaseThatIsNotReached(t *testing.T) {
	servertest.Long(t)
	if os.Getuid() != 0 {
		t.Skip("only root's databases run as another user")
	}
	need(t, os.Chmod(ownTemp(t), 0o700))
	d, err := servers.StartMariaDB(t.Context(), servers.DatabaseOptions{})
	if err == nil {
		t.Fatal("it started", d.Close())
	}
	if !strings.Contains(err.Error(), "chmod o+x") {
		t.Errorf("it does not say what to do: %v", err)
	}
}

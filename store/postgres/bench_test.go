package postgres

import (
	"testing"

	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/internal/sqlstore/sqlbench"
)

// BenchmarkFail prints the rate of the failing path. The server writes to the disk at each commit.
func BenchmarkFail(b *testing.B) {
	database := servertest.Own(b, servers.StartPostgreSQL, servers.DatabaseOptions{Args: []string{"-c", "fsync=on"}})
	url := "postgres://postgres@" + database.Addr + "/postgres?sslmode=disable"
	need(b, Migrate(b.Context(), url))
	for _, mode := range []string{"", "&default_query_exec_mode=cache_describe"} {
		sqlbench.Fail(b, "PostgreSQL"+mode, open(b, url+mode))
	}
}

package mysql

import (
	"testing"

	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/internal/sqlstore/sqlbench"
)

// BenchmarkFail prints the rate of the failing path. The server writes to the disk at each commit.
func BenchmarkFail(b *testing.B) {
	server := servertest.Own(b, servers.StartMariaDB, servers.DatabaseOptions{
		Args: []string{"--innodb-flush-log-at-trx-commit=1"}})
	url := databaseOn(b, server.Addr)
	need(b, Migrate(b.Context(), url))
	sqlbench.Fail(b, "MariaDB", open(b, url))
}

package connect

import (
	"context"
	"strings"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/store/mysql"
	"github.com/strikesmq/strikes/store/postgres"
)

// Databases are the URLs of the SQL databases that can keep the counts.
const Databases = "postgres://… or mysql://…"

// Database is a kind of SQL database.
type Database struct {
	Schema, Version string
	Migrate         func(ctx context.Context, rawURL string) error

	open func(rawURL, prefix string) (counter.Store, error)
}

var databases = map[string]*Database{
	"postgres": {
		Schema: postgres.Schema, Version: postgres.Version, Migrate: postgres.Migrate,
		open: func(rawURL, prefix string) (counter.Store, error) {
			return postgres.Open(rawURL, &postgres.Options{Prefix: prefix})
		},
	},
	"mysql": {
		Schema: mysql.Schema, Version: mysql.Version, Migrate: mysql.Migrate,
		open: func(rawURL, prefix string) (counter.Store, error) {
			return mysql.Open(rawURL, &mysql.Options{Prefix: prefix})
		},
	},
}

// DatabaseOf returns the kind of database that a URL names; nil if it names none.
func DatabaseOf(rawURL string) *Database {
	scheme, _, _ := strings.Cut(rawURL, "://")
	switch scheme {
	case "postgresql":
		scheme = "postgres"
	case "mariadb":
		scheme = "mysql"
	}
	return databases[scheme]
}

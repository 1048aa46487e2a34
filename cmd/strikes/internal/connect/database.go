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

// DatabaseOf returns the kind of database that a URL names; nil if it names none.
func DatabaseOf(rawURL string) *Database {
	scheme, _, _ := strings.Cut(rawURL, "://")
	switch scheme {
	case "postgres", "postgresql":
		return &Database{postgres.Schema, postgres.Version, postgres.Migrate,
			func(rawURL, prefix string) (counter.Store, error) {
				return postgres.Open(rawURL, &postgres.Options{Prefix: prefix})
			}}
	case "mysql", "mariadb":
		return &Database{mysql.Schema, mysql.Version, mysql.Migrate,
			func(rawURL, prefix string) (counter.Store, error) {
				return mysql.Open(rawURL, &mysql.Options{Prefix: prefix})
			}}
	}
	return nil
}

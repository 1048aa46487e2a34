package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/setting"
)

type storeMigrate struct {
	cli.Streams
	connect.Flags

	print bool
}

func (a *app) storeCommand() *cobra.Command {
	c := storeMigrate{Streams: a.Streams}
	migrate := &cobra.Command{
		Use: "migrate", Short: "make the tables of a store in a database",
		Example: `  strikes store migrate --store-url postgres://strikes@db.example/strikes
  strikes store migrate --store-url mysql://strikes@db.example/strikes
  strikes store migrate --store-url postgres:// --print | psql strikes`,
		Long: `Run it once as the user who will own the tables, and again after an upgrade
whose notes say so. It changes nothing if the tables are there, and refuses
those of a newer strikes. --print prints the SQL for your own migrations, and
connects to no server. MySQL and MariaDB have the same tables. Redis needs
none.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.AddStore(migrate)
	migrate.Flags().BoolVar(&c.print, "print", false, "print the SQL instead of running it")
	cmd := &cobra.Command{
		Use: "store", Short: "prepare a store",
		Example: `  strikes store migrate --store-url postgres://strikes@db.example/strikes`,
	}
	cmd.AddCommand(migrate)
	return cmd
}

func (c *storeMigrate) run(ctx context.Context) error {
	database := connect.DatabaseOf(c.StoreURL)
	switch {
	case database == nil:
		return cli.Misusef("store migrate: --store-url must be "+connect.Databases+", got %s; Redis needs no tables",
			setting.RedactURL(c.StoreURL))
	case c.print:
		_, err := fmt.Fprint(c.Out, database.Schema)
		return err
	}
	migrate, cancel := context.WithTimeout(ctx, connect.CheckTimeout)
	defer cancel()
	if err := database.Migrate(migrate, c.StoreURL); err != nil {
		if failed := new(counter.StoreError); errors.As(err, &failed) &&
			(failed.Fault == counter.FaultUnreachable || failed.Fault == counter.FaultSlow) {
			err = fmt.Errorf("%w; start the store, or correct host and port in the URL", err)
		}
		return fmt.Errorf("store %s: %w", setting.RedactURL(c.StoreURL), c.ExplainStore(ctx, err))
	}
	fmt.Fprintf(c.Out, "the store %s has the schema %q\n", setting.RedactURL(c.StoreURL), database.Version)
	return nil
}

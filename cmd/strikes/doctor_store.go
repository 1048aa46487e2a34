package main

import (
	"context"
	"errors"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/setting"
)

// store examines the store. A store that does not answer is a finding like any other, because the rest was examined.
func (r *rounds) store(ctx context.Context, store *counter.Counter, rawURL string) error {
	check, cancel := context.WithTimeout(ctx, connect.CheckTimeout)
	defer cancel()
	found, err := store.Admin().Examine(check)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	findings := storeFindings(found)
	if err != nil {
		findings = append(findings, storeTrouble(connect.ExplainStore(ctx, rawURL, err)))
	}
	return r.report.add(subject{kind: "store", name: setting.RedactURL(rawURL)}, findings)
}

func storeFindings(found []counter.Finding) []finding {
	var out []finding
	for _, f := range found {
		severity := inspect.Warning
		if f.Severe {
			severity = inspect.Error
		}
		out = append(out, finding{Code: f.Code, Severity: severity.String(), Seen: f.Seen, Impact: f.Impact, Fix: f.Fix})
	}
	return out
}

func storeTrouble(err error) finding {
	f := finding{
		Code: codeUnreachable, Severity: inspect.Error.String(), Seen: err.Error(),
		Impact: "no failure can be counted: messages that have failed are held until their session ends, then return to the queue; the attempt is not counted",
		Fix:    "bring the store back, or give its address with --redis-url",
	}
	if connect.NoDatabase(err) {
		f.Code, f.Fix = codeNoDatabase, connect.FixDatabase
	}
	var store *counter.StoreError
	if errors.As(err, &store) && store.Fault == counter.FaultDenied {
		f.Code, f.Fix = codeStoreDenied, "give the user and password that the store knows, with --redis-url or REDIS_URL"
	}
	if f.Code == codeUnreachable && cli.ExitCode(err) == cli.ExitMisuse {
		f.Code, f.Fix = codeNotStore, "give the address of the store with --redis-url"
	}
	return f
}

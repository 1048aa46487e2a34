package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples are command lines that the help of each command shows right after its usage.
var examples = map[string][]string{
	"strikes": {
		"strikes demo",
		"strikes declare orders",
		"strikes publish orders orders.txt",
		"strikes consume orders --max-retries 5 -- ./handle-order",
		"strikes dead list orders",
	},
	"strikes audit": {
		"strikes audit orders",
		"strikes audit orders --limit 10 --json",
	},
	"strikes console": {
		"strikes console",
		"strikes console --allow replay,pause --token-file /etc/strikes/token",
	},
	"strikes consume": {
		"strikes consume orders -- ./handle-order",
		"strikes consume orders --max-retries 5 --backoff 1s..1m -- php handle.php",
		"strikes consume orders --http http://127.0.0.1:8080/orders --concurrency 4",
	},
	"strikes counter": {
		"strikes counter list orders",
		`strikes counter reset orders order-17 --why "the bank was down"`,
	},
	"strikes counter get": {"strikes counter get orders order-17"},
	"strikes counter list": {
		"strikes counter list orders",
		"strikes counter list orders --limit 20 --json",
	},
	"strikes counter reset": {`strikes counter reset orders order-17 order-18 --why "the bank was down"`},
	"strikes dead": {
		"strikes dead list orders --groups",
		"strikes dead show orders order-17",
		"strikes dead replay orders order-17",
	},
	"strikes dead drop": {
		"strikes dead drop orders order-17 --to dropped.ndjson",
		`strikes dead drop orders --older-than 30d --to old.ndjson --why "too late"`,
	},
	"strikes dead list": {
		"strikes dead list orders",
		"strikes dead list orders --groups",
		"strikes dead list orders --kind timed-out --newer-than 12h",
	},
	"strikes dead replay": {
		"strikes dead replay orders order-17 order-18",
		"strikes dead replay orders --group 34fqn6qw --rate 5",
		`strikes dead replay orders --error "connection refused" --dry-run`,
		`strikes dead replay orders --all --why "the bank is back"`,
	},
	"strikes dead show": {
		"strikes dead show orders order-17",
		"strikes dead show orders --group 34fqn6qw",
		"strikes dead show orders order-17 --body > order-17.json",
	},
	"strikes declare": {
		"strikes declare orders",
		"strikes declare orders --single-active-consumer --delivery-limit 2000",
		"strikes declare billing --exchange-type topic --bind shop:order.paid",
		`strikes declare billing --bind 'Contracts\:OrderPaid'`,
	},
	"strikes demo": {
		"strikes demo",
		"strikes demo --console",
	},
	"strikes doctor": {
		"strikes doctor",
		"strikes doctor orders --probe",
		"strikes doctor orders --fix --dry-run",
	},
	"strikes export": {
		"strikes export",
		"strikes export --listen :9464 --queue orders --queue billing",
	},
	"strikes lane": {
		"strikes lane list orders",
		"strikes lane replay orders customer-7",
	},
	"strikes lane drop": {"strikes lane drop orders customer-7 --to dropped.ndjson"},
	"strikes lane list": {"strikes lane list orders"},
	"strikes lane release": {
		"strikes lane release orders customer-7 --to dropped.ndjson",
	},
	"strikes lane replay": {
		"strikes lane replay orders customer-7",
		`strikes lane replay orders --all --why "the bank is back"`,
	},
	"strikes limit": {
		"strikes limit get orders",
		`strikes limit set orders --max-retries 10 --why "the bank is slow"`,
		"strikes limit clear orders",
	},
	"strikes limit clear": {"strikes limit clear orders"},
	"strikes limit get":   {"strikes limit get orders"},
	"strikes limit set": {
		`strikes limit set orders --max-retries 10 --why "the bank is slow"`,
		`strikes limit set orders --max-age 36h --why "the bank is slow"`,
		`strikes limit set orders --id order-17 --max-retries 20 --why "a big order"`,
	},
	"strikes pause": {`strikes pause orders --why "the database is being moved"`},
	"strikes publish": {
		"strikes publish orders orders.txt",
		`echo '{"order":17}' | strikes publish orders --content-type application/json`,
		"strikes publish order.paid --exchange shop --ndjson events.ndjson",
	},
	"strikes resume": {"strikes resume orders"},
	"strikes skip":   {`strikes skip orders order-17 --why "cancelled by the customer"`},
	"strikes status": {
		"strikes status",
		"strikes status orders",
		"watch strikes status orders",
	},
	"strikes version": {
		"strikes version",
		"strikes version --json",
	},
}

// addExamples gives a command and its subcommands their examples.
func addExamples(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		addExamples(sub)
	}
	if lines := examples[cmd.CommandPath()]; lines != nil {
		cmd.Example = "  " + strings.Join(lines, "\n  ")
	}
}

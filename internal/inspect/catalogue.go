package inspect

import (
	_ "embed"
	"strings"
	"sync"
)

// Codes that other packages ask for. The code of an entry is its name up to the slash.
const (
	CodeUnknown              = "arguments-unknown" // stands for all other findings of a queue that cannot be read
	CodeDenied               = "arguments-denied"  // the same, for lack of a permission
	CodeNoDeadLetterExchange = "no-dead-letter-exchange"
	CodeDeadLetterUnproven   = "dead-letter-unproven"
	CodeExchangeMissing      = "dead-letter-exchange-missing"
	CodeQueueMissing         = "dead-letter-queue-missing"
	CodeUnbound              = "dead-letter-unbound"
	CodeAtMostOnce           = "dead-letter-at-most-once"
	CodeLoop                 = "dead-letter-loop"
	CodeTail                 = "requeue-to-tail"
	CodeDiscard              = "requeue-discards"
	CodeLimitLow             = "delivery-limit-low"
	CodeLimitTight           = "delivery-limit-tight"
	CodeDropsHead            = "drops-head"
	CodeDeadLetterLimit      = "dead-letter-queue-delivery-limit"
	CodeNoQueue              = "queue-not-found"
	CodeNodeDown             = "queue-node-down"
	CodeDeadLetterNodeDown   = "dead-letter-queue-node-down"
	CodeAlarm                = "broker-alarm"
	CodeNoStore              = "store-unreachable"
	CodeNoConsumer           = "no-consumer"
	CodeStoreDenied          = "store-denied"
	CodeNoDatabase           = "store-database-missing"
	CodeNotStore             = "store-other-protocol"
)

// text is the text of a finding.
type text struct {
	severity          Severity
	seen, impact, fix string
}

//go:embed catalogue.txt
var catalogueFile string

// catalogue has the text of every finding, by code and variant.
var catalogue = sync.OnceValue(func() map[string]text {
	all := map[string]text{}
	for _, entry := range strings.Split(catalogueFile, "\n## ")[1:] {
		name, lines, _ := strings.Cut(strings.ReplaceAll(entry, "\n  ", " "), "\n")
		var x text
		for line := range strings.Lines(lines) {
			label, says, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch label {
			case "warning":
				x.severity, x.seen = Warning, says
			case "error":
				x.severity, x.seen = Error, says
			case "impact":
				x.impact = says
			case "fix":
				x.fix = says
			}
		}
		all[name] = x
	}
	return all
})

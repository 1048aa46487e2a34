package publish

import (
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
)

var errFull = errors.New("no space left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestReportOnAFullDisk(t *testing.T) {
	p := &publishing{report: jsonl.NewEncoder(fullDisk{})}
	if p.tell(entry{}, amqp.Publishing{}, nil); !errors.Is(p.unsaid, errFull) {
		t.Errorf("publish --json: %v", p.unsaid)
	}
}

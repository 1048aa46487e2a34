package deadletter

// Result of a Replay or a Drop. Of each list of ids no more than 1000 are kept; a dead letter without an id has its
// Fingerprint there.
type Result struct {
	Done int // replayed or dropped, and off the dead-letter queue
	Left int // still dead letters: those that cannot go, and of a replay of everything what an early end left

	// Again are those replayed that had been handed out before: by a look, or by
	// a replay that was cut off. Those of the latter may be published twice.
	PossibleDuplicates     []string
	PossibleDuplicateCount int

	// Undecided are those that may or may not be published, or are published and may
	// still be in the dead-letter queue: of one window at most.
	Undecided []string

	// FailedAgain are those that have failed since.
	FailedAgain []string

	// RecordsErr is the first error of Records.AddTaken, nil if all was noted in the end.
	// Its dead letters are off the queue, but maybe not noted as taken.
	RecordsErr error
}

// maxIDs bounds the lists of a Result.
const maxIDs = 1000

func remember(ids []string, l *Message) []string {
	if len(ids) < maxIDs {
		ids = append(ids, l.Name())
	}
	return ids
}

func (r *Result) unsure(letters []*Message) {
	for _, l := range letters {
		r.Undecided = remember(r.Undecided, l)
	}
}

package deadletter

// Result of a Replay or a Drop. Each list holds up to 1000 ids; a dead letter without an id is listed by its
// Fingerprint.
type Result struct {
	Done int // replayed or dropped, and off the dead-letter queue
	Left int // of a Replay: still dead letters, because they cannot be published or the replay of everything ended early

	// PossibleDuplicates are the replayed messages that had been delivered before, by a Browse or an interrupted replay.
	// The latter may have published them too.
	PossibleDuplicates     []string
	PossibleDuplicateCount int

	// Undecided messages may or may not be published, or are published and may still be in the dead-letter queue: one
	// window at most.
	Undecided []string

	// FailedAgain are the replayed messages that have failed since.
	FailedAgain []string

	// RecordsErr is the first error of Records.NoteRemoved, nil if all was noted in the end. The dead letters are off the
	// queue, but their records may not say so.
	RecordsErr error
}

// maxIDs bounds the lists of a Result.
const maxIDs = 1000

func remember(ids []string, m *Message) []string {
	if len(ids) < maxIDs {
		ids = append(ids, m.Name())
	}
	return ids
}

func (r *Result) undecided(messages []*Message) {
	for _, m := range messages {
		r.Undecided = remember(r.Undecided, m)
	}
}

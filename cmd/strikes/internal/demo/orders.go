package demo

import "fmt"

// kind is how an order behaves.
type kind string

const (
	plain     kind = "plain"     // succeeds at the first attempt
	flaky     kind = "flaky"     // fails twice
	poisonous kind = "poisonous" // always fails
	deadly    kind = "deadly"    // kills the first processes that handle it
)

// retries is MaxRetries.
const retries = 3

// kills is how many processes the deadly order kills. The first leaves no trace, as a first delivery sends the store
// nothing. The second leaves an open attempt, which makes the order a suspect. In the third it runs isolated, so that
// crash is counted.
const kills = 3

// attempts is how many attempts such an order must get.
func (k kind) attempts() int {
	switch k {
	case flaky:
		return 3
	case deadly:
		return kills + 1
	case poisonous:
		return retries + 1
	default:
		return 1
	}
}

// order is one message; its ID is the MessageId.
type order struct {
	ID   string `json:"order"`
	Kind kind   `json:"kind"`
}

// orders are twenty, three of them troublesome.
func orders() []order {
	special := map[int]kind{4: flaky, 7: poisonous, 12: deadly}
	all := make([]order, 20)
	for i := range all {
		k, ok := special[i+1]
		if !ok {
			k = plain
		}
		all[i] = order{ID: fmt.Sprintf("order-%02d", i+1), Kind: k}
	}
	return all
}

package consumer

// features are asked in this order.
var features = []feature{
	partitionFeature,
	queueFeature,
	laneFeature,
	delayFeature,
	controlFeature,
	breakerFeature,
}

// newRooms returns the rooms of a session that follows one with the rooms before.
func newRooms(s *session, before rooms) (made rooms) {
	for _, f := range features {
		if r := f.room(s, before); r != nil {
			made = append(made, r)
		}
	}
	return made
}

// withFeatures returns a copy of c with the defaults of the features, and an error for a setting that no room can
// serve.
func (c *Consumer) withFeatures() (out Consumer, err error) {
	out = *c
	for _, f := range features {
		if f.set != nil && err == nil {
			err = f.set(&out)
		}
	}
	return out, err
}

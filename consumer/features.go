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

// featureDefaults returns a copy of c with the defaults of the features.
func featureDefaults(c *Consumer) *Consumer {
	out := *c
	for _, f := range features {
		if f.defaults != nil {
			f.defaults(&out)
		}
	}
	return &out
}

// refuseFeatures refuses the settings that no room can serve.
func refuseFeatures(c *Consumer) error {
	for _, f := range features {
		if f.refuse == nil {
			continue
		}
		if err := f.refuse(c); err != nil {
			return err
		}
	}
	return nil
}

package topology

// QueueName is what topology files call a queue: the class of traffic that it is meant for, or its number.
func QueueName(queue int) string { return queueName(queue) }

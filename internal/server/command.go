package server

// command answers the four-letter word that b begins with, if it does; done
// says that the connection is for nothing else.
func (c *conn) command(b []byte) (done bool, err error) {
	if string(b[:4]) == "ruok" {
		c.mu.Lock()
		c.mu.out = append(c.mu.out, "imok"...)
		c.mu.closing = true
		c.mu.Unlock()
		return true, errEnd
	}
	return false, nil
}

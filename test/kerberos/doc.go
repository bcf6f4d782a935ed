// Package kerberos has tests of logins by Kerberos with real parts: MIT's KDC, Apache's
// servers and clients, kazoo, and Pinfold.
package kerberos

// Package console is the console: HTML pages for people, which show and change data through the HTTP API.
//
// The pages are rendered on the server and work without JavaScript. A page reads and changes data only by calling the handler of the
// API in the same process, with the token of the browser, so that a page and a client of the API have the same rights, errors and authors.
//
//	GET  /                                  health, newest lessons, decisions that wait for a person
//	GET  /books/{book}                      bullets of a playbook
//	GET  /books/{book}/…                    a bullet, versions, executions, sessions, review, gate, curve, worth
//	GET  /runs, /dead, /status, /settings   the whole installation
//	GET  /erasures, POST /erasures          erase the data of a user, a session, an execution or a playbook
//	GET  /login, POST /login, POST /logout  the token of the browser
//	GET  /live                              server-sent events of changes, for pages that are open
//	GET  /static/…                          style sheet and script
//
// It never reads a stream or a bucket, and has only the rights of the token.
//
// # The walk of a page
//
//	console.go      ServeHTTP  security headers, the route
//	request.go      show, act  the token of the browser; an action ends with a redirect
//	book.go         showBook   reads with client.go, and returns the data of its template; each page has such a file
//	client.go       send       a call of the API in this process
//	render.go       render     the template in the frame: navigation, notice, status
//	format.go, chart.go        formats of numbers, and charts
//
// # Security
//
// A browser logs in with a token. Its secret is in a cookie that scripts cannot read and that the browser does not send with requests
// of other sites. A proxy that authenticates people sends the secret of its token and the name of the person instead (package
// tokens). Requests of other sites are refused (http.CrossOriginProtection). The content security policy permits only
// files of this server, and no page may be framed. All stored texts are shown as text.
package console

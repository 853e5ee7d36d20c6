/** `tenure/server`: a store behind HTTP. */
export { startServer } from './start-server.ts'
export type { ServerOptions, TenureServer } from './start-server.ts'
export type { AccessEntry, OnRequest } from './application.ts'

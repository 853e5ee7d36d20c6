/** Starts servers, pauses one, says which they are, and leaves them to whoever ends this process. */
import { startPostgres } from './postgres-server.ts'
import { startRedis } from './redis-server.ts'

const servers = await Promise.all([startRedis(), startPostgres()])
await servers[1].pause()
const pids = servers.map(({ pid }) => pid)
const folders = servers.map(({ folder }) => folder)
process.stdout.write(`${JSON.stringify({ pids, folders })}\n`)

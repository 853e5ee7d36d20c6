/**
 * What Tenure needs of a client of Redis beside its stores: commands as lists of text. ioredis and node-redis say that
 * differently; both are known by their shape, so that neither is a dependency.
 */
import { createHash } from 'node:crypto'
import { invalid } from '../core/errors.ts'

/** ioredis: a client or a cluster. */
export interface IoredisLike {
  call(command: string, ...args: readonly (string | Buffer | number)[]): Promise<unknown>
}

/** node-redis: a client that is connected. */
export interface NodeRedisLike {
  sendCommand(args: readonly string[]): Promise<unknown>
}

export type RedisLike = IoredisLike | NodeRedisLike

export type RedisCommand = (args: readonly string[]) => Promise<unknown>

export function commandsOf(client: RedisLike): RedisCommand {
  if (typeof client === 'object' && client !== null) {
    if ('call' in client) {
      return ([name = '', ...args]) => client.call(name, ...args)
    }
    if ('sendCommand' in client) return (args) => client.sendCommand(args)
  }
  throw invalid('client', 'must be a client of Redis (ioredis or redis)', client)
}

export interface ScriptCall {
  readonly script: string
  readonly keys: readonly string[]
  readonly args: readonly string[]
}

/** Sends a script by its hash, and whole only if Redis does not know it. */
export async function runScript(command: RedisCommand, call: ScriptCall): Promise<unknown> {
  const { script, keys, args } = call
  const rest = [String(keys.length), ...keys, ...args]
  try {
    return await command(['EVALSHA', sha1(script), ...rest])
  } catch (error) {
    if (!isUnknownScript(error)) throw error
    return command(['EVAL', script, ...rest])
  }
}

function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}

const hashes = new Map<string, string>()
const HASHES_MAX = 1_000

/** Whoever makes up scripts as it goes must not fill the memory with their hashes. */
function sha1(script: string): string {
  const known = hashes.get(script)
  if (known !== undefined) return known
  const hash = createHash('sha1').update(script).digest('hex')
  if (hashes.size >= HASHES_MAX) hashes.clear()
  hashes.set(script, hash)
  return hash
}

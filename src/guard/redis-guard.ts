/**
 * Guards what is kept in Redis: the check of the fence and the write are one script. The marks are fields of one hash.
 *
 * The rule itself stays in `marks.ts`: the guard judges by the marks that it saw last, and the script carries the
 * write out only if they are still the same; otherwise it answers with what they are now, and the guard judges again.
 * A holder that writes many times pays one round trip for each.
 */
import { invalid, LeaseError } from '../core/errors.ts'
import { refuseUnknown } from '../core/input.ts'
import { parseResource } from '../core/resource.ts'
import {
  readAct,
  readCheck,
  type Act,
  type ActReading,
  type CheckArguments,
  type GuardedLease,
  type WriteOptions,
} from './act.ts'
import { judge, markKey, measuresOf, NO_MARK, type Mark, type Stamp } from './marks.ts'
import {
  commandsOf,
  runScript,
  type RedisCommand,
  type RedisLike,
  type ScriptCall,
} from '../drivers/redis-driver.ts'
import { lostUnlessReply } from '../drivers/redis-errors.ts'

export interface RedisGuardOptions {
  /**
   * The hash of the marks; all who write the same things must use the same. On a cluster it must have the hash tag of
   * the keys that are written. Default `tenure:fences`.
   */
  readonly key?: string
}

const READING: ActReading = {
  known: ['resource', 'keys', 'args'],
  resourceOf: parseResource,
}
/** How often the marks may change under a write before it gives up; they change only with a new holder. */
const TRIES_MAX = 100
/** Fields remembered; beyond it the guard forgets them all, which costs a round trip and nothing else. */
const SEEN_MAX = 10_000

export class RedisGuard {
  readonly #command: RedisCommand
  readonly #key: string
  readonly #seen = new Map<string, string>()

  constructor(client: RedisLike, options: RedisGuardOptions = {}) {
    refuseUnknown(options, ['key'])
    this.#command = commandsOf(client)
    const { key = 'tenure:fences' } = options
    if (typeof key !== 'string' || key === '') throw invalid('key', 'must be text', key)
    this.#key = key
  }

  /**
   * Runs a Lua script if no later holder has written what it writes, in one script with the check, and returns what it
   * returns. It finds its own `KEYS` and `ARGV` as if it ran alone. Throws `STALE_FENCE` otherwise, and nothing was
   * written. Redis does not undo: what a script wrote before it failed stays, as always.
   */
  async write(lease: GuardedLease, script: string, ...work: RedisWork): Promise<unknown> {
    const options = optionsOf(work)
    const act = readAct(lease, options, READING)
    if (typeof script !== 'string') throw invalid('script', 'must be text', script)
    const texts = textsOf('args', options.args)
    return this.#pass(act, { script, keys: textsOf('keys', options.keys), args: texts })
  }

  /** See `CheckArguments`. */
  async check(...asked: CheckArguments): Promise<true> {
    await this.#pass(readCheck(asked), { script: '', keys: [], args: [] })
    return true
  }

  async #pass(act: Act, work: ScriptCall): Promise<unknown> {
    const fields = measuresOf(act).map(markKey)
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const seen = fields.map((field): MarkText => [field, this.#seen.get(field) ?? ''])
      const judgement = judge(act, new Map(seen.map(([field, text]) => [field, readMark(text)])))
      // Seen marks may be newer than the truth only if the truth was deleted; a refusal is confirmed like all else.
      const isCurrent = judgement.kind === 'current'
      const raises = isCurrent ? [...judgement.raises] : []
      const raised = raises.map(([field, mark]): MarkText => [field, writeMark(mark)])
      const counts = [seen.length, raised.length, isCurrent ? 1 : 0].map(String)
      const args = [...counts, ...seen.flat(), ...raised.flat(), ...work.args]
      const [done, ...rest] = await this.#run({ ...work, args })
      if (Number(done) === 0) {
        this.#remember(fields.map((field, index) => [field, String(rest[index])]))
        continue
      }
      this.#remember(raised)
      if (!isCurrent) throw judgement.error
      const [result = null] = rest
      // What alone would be an error reply comes as a value here, among others.
      if (result instanceof Error) throw result
      return result
    }
    const message = `${this.#key}: the marks changed ${TRIES_MAX} times under one write`
    throw new LeaseError('STORE_CONFLICT', message)
  }

  async #run({ script, keys, args }: ScriptCall): Promise<readonly unknown[]> {
    const call = { script: guarded(script), keys: [this.#key, ...keys], args }
    try {
      return (await runScript(this.#command, call)) as readonly unknown[]
    } catch (error) {
      throw lostUnlessReply(error)
    }
  }

  #remember(marks: readonly MarkText[]): void {
    if (this.#seen.size > SEEN_MAX) this.#seen.clear()
    for (const [field, text] of marks) this.#seen.set(field, text)
  }
}

export interface RedisWriteOptions extends WriteOptions {
  /** The keys that the script gets as `KEYS`. Default: none. */
  readonly keys?: readonly string[]
  /** What the script gets as `ARGV`. Default: nothing. */
  readonly args?: readonly (string | number)[]
}

/** What a script works with, one by one or by name. */
export type RedisWork =
  | [keys?: readonly string[], args?: readonly (string | number)[], options?: WriteOptions]
  | [options: RedisWriteOptions]

function textsOf(field: string, values: readonly (string | number)[] = []): readonly string[] {
  if (!Array.isArray(values)) throw invalid(field, 'must be a list', values)
  return values.map((value: unknown) => {
    if (typeof value === 'string' || typeof value === 'number') return String(value)
    throw invalid(field, 'must be text or numbers', value)
  })
}

function optionsOf(work: RedisWork): RedisWriteOptions {
  const [keys = [], args, options] = work
  if (isList(keys)) {
    refuseUnknown(options, ['resource'])
    return { ...options, keys, args: args ?? [] }
  }
  if (work.length === 1) return keys
  throw invalid('args', 'must be among the options where keys are', args)
}

function isList<Item>(value: readonly Item[] | object): value is readonly Item[] {
  return Array.isArray(value)
}

/** The caller's script becomes a function, so that its `KEYS`, `ARGV` and `return` are its own. */
function guarded(script: string): string {
  return `local work = function(KEYS, ARGV)
${script}
end
local marks, count, raised, run = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local now, moved = {0}, false
for i = 1, count do
  local value = redis.call('HGET', marks, ARGV[2 * i + 2]) or ''
  now[i + 1] = value
  moved = moved or value ~= ARGV[2 * i + 3]
end
if moved then return now end
if run ~= '1' then return {1} end
for i = count + 1, count + raised do
  redis.call('HSET', marks, ARGV[2 * i + 2], ARGV[2 * i + 3])
end
local keys, args = {}, {}
for i = 2, #KEYS do keys[i - 1] = KEYS[i] end
for i = 2 * (count + raised) + 4, #ARGV do args[#args + 1] = ARGV[i] end
return {1, work(keys, args)}`
}

/** A field of the hash of marks, and what is in it; empty for a mark that was never raised. */
type MarkText = readonly [field: string, text: string]

/** `exclusive fence, exclusive lease, shared fence, shared lease`, with `-` for none. */
function writeMark({ exclusive, shared }: Mark): string {
  const stamps = [exclusive, shared].map(({ fence, leaseId }) => `${fence} ${leaseId ?? '-'}`)
  return stamps.join(' ')
}

function readMark(text: string): Mark {
  if (text === '') return NO_MARK
  const [exclusiveFence, exclusiveLease, sharedFence, sharedLease] = text.split(' ')
  return {
    exclusive: readStamp(exclusiveFence, exclusiveLease),
    shared: readStamp(sharedFence, sharedLease),
  }
}

function readStamp(fence: string | undefined, leaseId: string | undefined): Stamp {
  return { fence: Number(fence), leaseId: leaseId === '-' ? null : (leaseId ?? null) }
}

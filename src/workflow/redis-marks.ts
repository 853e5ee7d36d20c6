/**
 * Marks in Redis, with the effect in one script. An effect says which commands it wants, and they are carried out
 * together with the raise of the mark, if the mark is still the one that the action was judged by; otherwise the action
 * is judged again.
 */
import { invalid, LeaseError } from '../core/errors.ts'
import { refuseUnknown } from '../core/input.ts'
import {
  commandsOf,
  runScript,
  type RedisCommand,
  type RedisLike,
} from '../drivers/redis-driver.ts'
import { lostUnlessReply } from '../drivers/redis-errors.ts'
import { parseName } from './action.ts'
import {
  type ActionMarks,
  type ActionRef,
  ACTIONS_REMEMBERED,
  EffectQueue,
  type MarkDecision,
  SeenMarks,
} from './action-marks.ts'
import type { Known, WorkflowMark } from './action-decision.ts'

/**
 * The commands of an effect. None runs before the effect has ended; all run in one script, and then the mark is raised.
 * Redis does not undo: when one of them fails, those before it stay, and the mark is not raised.
 */
export interface RedisEffects {
  /**
   * Throws `LIMIT_EXCEEDED` for more than 7,000 words, or 50,000 in one effect: then nothing of the effect runs, and the
   * effect fails by it even if it goes on.
   */
  command(name: string, ...args: readonly (string | number)[]): void
}

export interface RedisMarksOptions {
  /**
   * Before the keys of the marks. On a cluster it must have the hash tag of the keys that effects write. Default
   * `tenure:marks:`.
   */
  readonly prefix?: string
}

const TRIES_MAX = 20

/** `unpack` of Lua has room for less than 8,000 words, and would fail when the commands before it have run. */
const COMMAND_WORDS_MAX = 7_000
/** With the lengths of the commands; a client passes them to its driver as arguments, of which there is no end. */
const EFFECT_WORDS_MAX = 50_000

/** The mark, the epoch of the action if it was carried out, and from which epoch on all actions are remembered. */
const READ = `local oldest = redis.call('ZRANGE', KEYS[2], -${ACTIONS_REMEMBERED}, -${ACTIONS_REMEMBERED}, 'WITHSCORES')
return {
  redis.call('GET', KEYS[1]) or '', redis.call('ZSCORE', KEYS[2], ARGV[1]) or '', oldest[2] or '0'
}`

/** KEYS: mark, actions. ARGV: expected, new mark, action, epoch, then each command as its length and its words. */
const COMMIT = `if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
local at = 5
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  redis.call(unpack(ARGV, at + 1, at + count))
  at = at + 1 + count
end
redis.call('SET', KEYS[1], ARGV[2])
if ARGV[4] == '' then return 1 end
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[3])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -${ACTIONS_REMEMBERED + 1})
return 1`

export class RedisMarks implements ActionMarks<RedisEffects> {
  readonly #command: RedisCommand
  readonly #stem: string
  readonly #seen = new SeenMarks()
  readonly #effects = new EffectQueue()

  /** `processor` names whose marks these are: several kinds of processors may share a server. */
  constructor(client: RedisLike, processor: string, options: RedisMarksOptions = {}) {
    refuseUnknown(options, ['prefix'])
    this.#command = commandsOf(client)
    const { prefix = 'tenure:marks:' } = options
    this.#stem = `${prefix}${parseName(processor, 'processor')}:`
  }

  peek(ref: ActionRef): Known {
    return this.#seen.peek(ref)
  }

  /** Within this process an effect runs once; several processes may run it, and the commands of one are committed. */
  transact<Result>(
    ref: ActionRef,
    decide: (known: Known) => MarkDecision<RedisEffects, Result>,
  ): Promise<Result> {
    return this.#effects.run(ref.workflowId, () => this.#transact(ref, decide))
  }

  async #transact<Result>(
    ref: ActionRef,
    decide: (known: Known) => MarkDecision<RedisEffects, Result>,
  ): Promise<Result> {
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const { text, known } = await this.#read(ref)
      const { mark, epoch, effect } = decide(known)
      const commands = new Commands()
      const result = await effect(commands)
      commands.requireWhole()
      if (mark === null) return result
      const raised = writeMark(mark)
      const args = [text, raised, ref.actionId, String(epoch ?? ''), ...commands.words]
      const keys = this.#keys(ref)
      const done = await runScript(this.#command, { script: COMMIT, keys, args }).catch(lostAnswer)
      if (Number(done) === 1) {
        this.#seen.note(ref, mark, epoch)
        return result
      }
    }
    const message = `the mark of workflow ${ref.workflowId} changed ${TRIES_MAX} times under one action`
    throw new LeaseError('STORE_CONFLICT', message)
  }

  async #read(ref: ActionRef): Promise<{ readonly text: string; readonly known: Known }> {
    const keys = this.#keys(ref)
    const script = { script: READ, keys, args: [ref.actionId] }
    const reply = await runScript(this.#command, script).catch(unavailable)
    const [text = '', score = '', oldest = '0'] = (reply as readonly unknown[]).map(String)
    const mark = readMark(text)
    this.#seen.note(ref, mark, score === '' ? null : Number(score))
    return { text, known: { mark, seen: score !== '', rememberedFrom: Number(oldest) } }
  }

  #keys({ workflowId }: ActionRef): readonly string[] {
    return [`${this.#stem}mark:${workflowId}`, `${this.#stem}actions:${workflowId}`]
  }
}

class Commands implements RedisEffects {
  readonly words: string[] = []
  #refusal: { readonly error: unknown } | null = null

  command(name: string, ...args: readonly (string | number)[]): void {
    try {
      this.#add(name, args)
    } catch (error) {
      this.#refusal ??= { error }
      throw error
    }
  }

  /** Throws what refused a command: the others without it are not the effect. */
  requireWhole(): void {
    if (this.#refusal !== null) throw this.#refusal.error
  }

  #add(name: string, args: readonly (string | number)[]): void {
    if (typeof name !== 'string' || name === '') throw invalid('name', 'must be text', name)
    const count = args.length + 1
    if (count > COMMAND_WORDS_MAX) throw tooLong('a command', COMMAND_WORDS_MAX, count)
    const total = this.words.length + count + 1
    if (total > EFFECT_WORDS_MAX) throw tooLong('an effect', EFFECT_WORDS_MAX, total)
    this.words.push(String(count), name, ...args.map(wordOf))
  }
}

function wordOf(value: unknown): string {
  if (typeof value === 'string' || typeof value === 'number') return String(value)
  throw invalid('args', 'must be text or numbers', value)
}

function tooLong(what: string, limit: number, got: number): LeaseError {
  const message = `${what} must have at most ${limit} words, got ${got}`
  return new LeaseError('LIMIT_EXCEEDED', message, { details: { limit } })
}

/** The marks cannot be read, whatever the reason: nothing was begun. */
function unavailable(cause: unknown): never {
  const why = cause instanceof Error ? cause.message : String(cause)
  throw new LeaseError('STORE_UNAVAILABLE', `the marks in Redis cannot be read: ${why}`, { cause })
}

/** An error reply of Redis is the effect's own error; without a reply it is unknown whether the script ran. */
function lostAnswer(cause: unknown): never {
  throw lostUnlessReply(cause)
}

function writeMark({ leaseId, fence, revoked, epoch }: WorkflowMark): string {
  return `${leaseId} ${fence} ${revoked ? 1 : 0} ${epoch}`
}

function readMark(text: string): WorkflowMark | null {
  const [leaseId, fence, revoked, epoch] = text.split(' ')
  if (leaseId === undefined || leaseId === '' || epoch === undefined) return null
  return { leaseId, fence: Number(fence), revoked: revoked === '1', epoch: Number(epoch) }
}

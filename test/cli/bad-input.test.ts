/**
 * What people get wrong. For each: the code and exit status of the one table, exactly one line that names field,
 * expectation and value, no stack, no hang, and nothing written.
 */
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ERROR_TABLE, type ErrorCode, type LeaseError } from '../../src/core/errors.ts'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { parseResource, type Mode } from '../../src/core/resource.ts'
import { openApi } from '../../src/open.ts'
import type { HistoryEntry, LeaseApi } from '../../src/service/lease-api.ts'
import { MAIN, startProgram, until, workshop, type Ended, type Workshop } from './tenure-process.ts'

const ID = '0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2'
const DURATION = 'such as 500ms, 30s, 5m, 1h or 2d'

function expectOneLine(ended: Ended, code: ErrorCode, parts: readonly string[]): void {
  expect(ended.stderr.endsWith('\n')).toBe(true)
  const line = ended.stderr.slice(0, -1)
  expect(line).not.toContain('\n')
  for (const part of parts) expect(line).toContain(part)
  expect(line.endsWith(`(${code})`)).toBe(true)
  expect([ended.code, ended.stdout]).toEqual([ERROR_TABLE[code].exitCode, ''])
}

/** What the store holds, or that there is none. */
async function contents(shop: Workshop): Promise<unknown> {
  return fs.existsSync(shop.storeFile) ? shop.json(['history']) : 'no store'
}

/** The store of a workshop from inside this process: nobody is being tested here, and a process each takes its time. */
async function openedShop(shop: Workshop): Promise<LeaseApi> {
  const api = await openApi(shop.storeUrl, { holder: 'test' })
  onTestFinished(async () => api.close())
  return api
}

interface Taken {
  readonly holder: string
  readonly name: string
  readonly leaseId?: string
  readonly mode?: Mode
}

async function take(api: LeaseApi, taken: Taken): Promise<void> {
  const { holder, name, leaseId = randomUUID(), mode = 'exclusive' } = taken
  const resource = parseResource(name)
  const request = { id: leaseId, resource, mode, holder, session: holder, waitMs: 0 }
  expect(await api.acquire(request)).toMatchObject({ kind: 'granted' })
}

type Wrong = readonly [what: string, args: readonly string[], parts: readonly string[]]

const WRONG: readonly Wrong[] = [
  ['an empty holder', ['acquire', 'a:b', '--holder', ''], ['holder must be 1..128 bytes, got ""']],
  [
    'a holder of 129 bytes',
    ['acquire', 'a:b', '--holder', 'x'.repeat(129)],
    ['holder must be 1..128 bytes', '129 bytes'],
  ],
  [
    'a holder with control characters',
    ['acquire', 'a:b', '--holder', 'a\nb\u001b[2J'],
    ['holder must not contain control characters', '"a\\nb\\u001b[2J"'],
  ],
  ['an empty session', ['acquire', 'a:b', '--session', ''], ['session must be 1..128 bytes']],
  ['a bad kind', ['acquire', 'Work:1'], ['resource kind must match', '"Work"']],
  ['a kind that is too long', ['acquire', `${'k'.repeat(33)}:1`], ['resource kind must match']],
  ['a resource without a name', ['acquire', 'work:'], ['resource name must be 1..1024 bytes']],
  ['an empty resource', ['acquire', ''], ['resource must be kind:name or a path, got ""']],
  [
    'a name of 1025 bytes',
    ['acquire', `work:${'x'.repeat(1025)}`],
    ['resource name must be 1..1024 bytes', '1025 bytes'],
  ],
  [
    'a file that climbs above the root',
    ['acquire', 'file:/a/../../etc/passwd'],
    ['resource file name must not climb above the root', '"/a/../../etc/passwd"'],
  ],
  [
    'a file: that is relative',
    ['acquire', 'file:a.ts'],
    ['resource file name must be an absolute path', '"a.ts"'],
  ],
  ['a ttl of 0', ['acquire', 'a:b', '--ttl', '0s'], ['ttl must be', DURATION, '"0s"']],
  ['a bare 0 as ttl', ['acquire', 'a:b', '--ttl', '0'], ['ttl must be', DURATION, '"0"']],
  ['a negative ttl', ['acquire', 'a:b', '--ttl', '-5s'], ['ttl must be', DURATION, '"-5s"']],
  ['a ttl of NaN', ['acquire', 'a:b', '--ttl', 'NaN'], ['ttl must be', DURATION, '"NaN"']],
  ['a ttl of 1e99', ['acquire', 'a:b', '--ttl', '1e99'], ['ttl must be', DURATION, '"1e99"']],
  ['a ttl in parsecs', ['acquire', 'a:b', '--ttl', '30 parsecs'], ['ttl must be', '"30 parsecs"']],
  ['a ttl beyond 30 days', ['acquire', 'a:b', '--ttl', '31d'], ['1ms..30d', '"31d"']],
  ['a negative wait', ['acquire', 'a:b', '--wait', '-1s'], ['wait must be', DURATION, '"-1s"']],
  ['a wait beyond a day', ['acquire', 'a:b', '--wait', '2d'], ['wait must be', '0s..1d', '"2d"']],
  [
    'two waits',
    ['acquire', 'a:b', '--wait', '1s', '--timeout', '2s'],
    ['timeout must not', '"2s"'],
  ],
  [
    'max-renewals of -2',
    ['acquire', 'a:b', '--max-renewals', '-2'],
    ['max-renewals must be an integer -1..2147483647', '"-2"'],
  ],
  [
    'a max-hold of 0',
    ['run', 'a:b', '--max-hold', '0s', '--', 'true'],
    ['max-hold must be', '"0s"'],
  ],
  ['an unknown option', ['acquire', 'a:b', '--tll', '5s'], ['option must be', '"--tll"', '--ttl?']],
  ['an unknown command', ['aquire', 'a:b'], ['command must be', '"aquire"', 'acquire?']],
  ['no command', ['--holder', 'ann'], ['command must be given']],
  ['no command, and an unknown option', ['--bogus'], ['option must be', '"--bogus"']],
  ['no resource', ['acquire'], ['RESOURCE must be given, got nothing']],
  ['too many arguments', ['why', 'a:b', 'c:d'], ['arguments must be RESOURCE', '"c:d"']],
  ['nothing to run', ['run', 'a:b'], ['COMMAND… must be given after --, got nothing']],
  [
    'an option without its value',
    ['acquire', 'a:b', '--ttl'],
    ['ttl must be followed by DURATION'],
  ],
  ['a lease id that is none', ['show', 'cafe-1234'], ['lease must be a UUID or a resource']],
  ['half a lease id', ['release', ID.slice(0, 18)], ['lease must be a UUID or a resource']],
  [
    'a lease id of one’s own that is none',
    ['acquire', 'a:b', '--lease-id', 'x'],
    ['lease-id must be a UUID'],
  ],
  [
    'a bad namespace',
    ['ls', '--namespace', 'No'],
    ['namespace must match [a-z0-9._-]{1,64}', '"No"'],
  ],
  ['a bad limit', ['ls', '--limit', '0'], ['limit must be an integer 1..10000', '"0"']],
  ['a store of an unknown kind', ['ls', '--store', 'mysql:x'], ['store must be', '"mysql:x"']],
  [
    'a store of a kind that every object has',
    ['ls', '--store', 'constructor:x'],
    ['store must be', '"constructor:x"'],
  ],
  [
    'a store without a file',
    ['ls', '--store', 'sqlite::memory:'],
    ['store must be', 'sqlite:PATH'],
  ],
  [
    'an empty directory of a ledger',
    ['ledger', 'seal', '--ledger', ''],
    ['ledger must be a path, got ""'],
  ],
  ['an empty root of paths', ['mcp', '--root', ''], ['root must be a path, got ""']],
  ['an empty repository', ['serve', '--repo', ''], ['repo must be directories, got ""']],
  ['an empty store', ['ls', '--store', ''], ['store must be', '""']],
  ['an unknown type of event', ['history', '--type', 'stolen'], ['type must be among', '"stolen"']],
  [
    'an unknown action',
    ['config', 'push'],
    ['ACTION must be one of get, set, unset, ls', '"push"'],
  ],
  ['an unknown key', ['config', 'get', 'colour'], ['key must be one of', '"colour"']],
  [
    'a malformed value of a number',
    ['config', 'set', 'default_ttl_seconds', 'soon'],
    ['default_ttl_seconds must be an integer 1..2592000', '"soon"'],
  ],
  [
    'a value out of range',
    ['config', 'set', 'default_ttl_seconds', '0'],
    ['default_ttl_seconds must be an integer 1..2592000', '0'],
  ],
  [
    'a malformed value of a switch',
    ['config', 'set', 'keep_history', 'yes'],
    ['keep_history must be true or false', '"yes"'],
  ],
  ...['Work', 'my_kind', 'a.b', 'k'.repeat(33)].map((target): Wrong => [
    `a configuration for ${target}, which is neither a kind nor a resource`,
    ['config', 'set', 'max_renewals', '5', '--for', target],
    ['for must be a kind', 'kind:name, or a path with a slash', `"${target}"`],
  ]),
  ['no value', ['config', 'set', 'keep_history'], ['must be followed by KEY and VALUE']],
  ...['101', '-101', '1.5', 'high'].map((priority): Wrong => [
    `a priority of ${priority}`,
    ['acquire', 'a:b', '--priority', priority],
    ['priority must be an integer -100..100', `"${priority}"`],
  ]),
  ...['0', '-1', '10001'].map((slots): Wrong => [
    `slots of ${slots}`,
    ['acquire', 'a:b', '--slots', slots],
    ['slots must be an integer 1..10000', `"${slots}"`],
  ]),
  [
    'a resource twice',
    ['acquire', 'a:b', 'c:d', 'a:b'],
    ['resources must not overlap a:b, got "a:b"'],
  ],
  [
    'a path and what contains it',
    ['run', 'src/app.ts', 'src/', '--', 'true'],
    ['resources must not overlap file:', 'src/app.ts', '/src"'],
  ],
  [
    'more than 64 resources',
    ['acquire', ...Array.from({ length: 65 }, (_, index) => `work:${index}`)],
    ['resources must be 1..64, got 65'],
  ],
  [
    'slots for several resources',
    ['acquire', 'a:b', 'c:d', '--slots', '2'],
    ['slots must not be given for several resources, got 2'],
  ],
  [
    'one lease id for several resources',
    ['acquire', 'a:b', 'c:d', '--lease-id', ID],
    ['lease-id must not be given for several resources', ID],
  ],
  [
    'a subtree of what is no tree',
    ['acquire', 'a:b', '--subtree'],
    ['extent must be exact for a kind that is not a tree, got "subtree"'],
  ],
  ['a bad lock delay', ['acquire', 'a:b', '--lock-delay', '-1s'], ['lock-delay must be', '"-1s"']],
  ['a bad break-after', ['acquire', 'a:b', '--break-after', 'x'], ['break-after must be', '"x"']],
  ['a bad grace', ['revoke', ID, '--grace', '31d'], ['grace must be', '0s..30d', '"31d"']],
  ['a transfer to nobody', ['transfer', ID], ['to must be given, or --next, got undefined']],
  ['a transfer to an empty holder', ['transfer', ID, '--to', ''], ['to must be 1..128 bytes']],
  [
    'a transfer to somebody and the next',
    ['transfer', ID, '--to', 'ben', '--next'],
    ['to must not be given with --next, got "ben"'],
  ],
]

describe('bad input', () => {
  it.each(WRONG)('%s is refused', async (_what, args, parts) => {
    const shop = workshop()
    expectOneLine(await shop.hosted(args), 'INVALID_INPUT', parts)
    expect(['no store', []]).toContainEqual(await contents(shop))
  })

  it.each([
    ['a key', ['no_such_key', '5'], '"no_such_key"'],
    ['a value', ['max_renewals', 'many'], '"many"'],
  ])('a setting with %s that there is not makes no store', async (_what, words, got) => {
    const shop = workshop()
    const file = path.join(shop.directory, 'mistyped.db')
    const args = ['config', 'set', ...words, '--store', `sqlite:${file}`]
    expectOneLine(await shop.hosted(args), 'INVALID_INPUT', [got])
    expect(fs.existsSync(file)).toBe(false)
  })

  it('an unknown state and an unknown release reason have codes of their own', async () => {
    const shop = workshop()
    const state = await shop.tenure(['ls', '--state', 'asleep'])
    expectOneLine(state, 'INVALID_STATE', ['state must be one of active', '"asleep"'])
    const reason = await shop.tenure(['release', ID, '--reason', 'bored'])
    expectOneLine(reason, 'INVALID_REASON', ['releaseReason must be completed', '"bored"'])
  })

  it('words that are too many for a reason are beyond a limit', async () => {
    const shop = workshop()
    const ended = await shop.tenure(['acquire', 'a:b', '--reason', 'x'.repeat(1025)])
    expectOneLine(ended, 'LIMIT_EXCEEDED', ['reason', '1024 bytes', '1025 bytes'])
  })

  it.each([
    ['a resource', ['acquire', '$BAD'], 'argument'],
    ['a holder', ['acquire', 'a:b', '--holder', '$BAD'], 'argument'],
    ['a holder in the environment', ['acquire', 'a:b'], 'TENURE_HOLDER'],
  ] as const)('%s that is not UTF-8 is refused', async (_what, args, field) => {
    const shop = workshop()
    const words = args.map((word) => (word === '$BAD' ? '"$BAD"' : word)).join(' ')
    const holder = field === 'TENURE_HOLDER' ? 'TENURE_HOLDER="$BAD"' : ''
    const script = `BAD=$(printf 'a\\377b'); ${holder} "${process.execPath}" "${MAIN}" ${words}`
    const env = { TENURE_STORE: shop.storeUrl }
    const ended = await startProgram(['sh', '-c', script], { env }).ended
    expectOneLine(ended, 'INVALID_INPUT', [`${field} must be valid UTF-8, got "a\ufffdb"`])
  })

  it('is told as JSON on stderr to whoever asked for JSON', async () => {
    const shop = workshop()
    const { code, stdout, stderr } = await shop.tenure(['acquire', 'a:b', '--ttl', '5x', '--json'])
    expect([code, stdout]).toEqual([2, ''])
    const error = JSON.parse(stderr) as LeaseError
    expect(error).toMatchObject({
      code: 'INVALID_INPUT',
      effect: 'none',
      details: { field: 'ttl' },
    })
  })

  it('does not show a stack, unless somebody asks for it', async () => {
    const shop = workshop()
    const { stderr } = await shop.tenure(['ls', '--store', 'mysql:x', '--debug'])
    expect(stderr).toMatch(/\(INVALID_INPUT\)\nLeaseError: .*\n {4}at /)
    const quiet = await shop.tenure(['ls', '--store', 'mysql:x'])
    expect(quiet.stderr).not.toContain('    at ')
    const viaEnv = await shop.tenure(['ls', '--store', 'mysql:x'], { env: { TENURE_DEBUG: '1' } })
    expect(viaEnv.stderr).toContain('    at ')
  })
})

const LEASE = '7c1d1b2e-0f3a-4b57-8b39-3a5b1f0c9d10'

/** By ann, who holds a:b and has released the lease above, while ben holds c:d. */
const MISTAKEN: readonly (readonly [
  what: string,
  args: readonly string[],
  code: ErrorCode,
  part: string,
])[] = [
  ['a transfer to oneself', ['transfer', 'a:b', '--to', 'ann'], 'INVALID_INPUT', 'got "ann"'],
  ['a transfer to nobody', ['transfer', 'a:b', '--to', ''], 'INVALID_INPUT', 'got ""'],
  ['a transfer of an unknown lease', ['transfer', ID, '--to', 'ben'], 'LEASE_NOT_FOUND', ID],
  ['a transfer of what nobody holds', ['transfer', 'x:y', '--next'], 'LEASE_NOT_FOUND', 'x:y'],
  ['a transfer of another’s lease', ['transfer', 'c:d', '--to', 'cyd'], 'NOT_HOLDER', '"ben"'],
  ['a transfer of an ended lease', ['transfer', LEASE, '--to', 'ben'], 'LEASE_TERMINAL', LEASE],
  ['a transfer to the next of none', ['transfer', 'a:b', '--next'], 'WAIT_TIMEOUT', 'nobody'],
  ['an upgrade of an unknown lease', ['upgrade', ID], 'LEASE_NOT_FOUND', ID],
  ['an upgrade of another’s lease', ['upgrade', 'c:d', '--wait', '1s'], 'NOT_HOLDER', '"ben"'],
  ['an upgrade of an ended lease', ['upgrade', LEASE], 'LEASE_TERMINAL', LEASE],
  ['a downgrade of another’s lease', ['downgrade', 'c:d'], 'NOT_HOLDER', '"ben"'],
  ['adopting another’s lease', ['adopt', 'c:d'], 'NOT_HOLDER', '"ben"'],
  ['adopting it twice', ['adopt', 'a:b', '--session', 's'], 'LEASE_EXISTS', 'taken over'],
  ['a grace for an ended lease', ['revoke', LEASE, '--grace', '1s'], 'LEASE_TERMINAL', LEASE],
]

describe('a lease that is not one’s own, or no longer', () => {
  it.each(['renew', 'release', 'revoke', 'show'])(
    '%s of an unknown id is refused',
    async (command) => {
      const shop = workshop()
      const ended = await shop.tenure([command, ID])
      expectOneLine(ended, 'LEASE_NOT_FOUND', [ID])
      expect(await contents(shop)).toEqual([])
    },
  )

  it.each(['renew', 'release'])('%s by another than the holder is refused', async (command) => {
    const shop = workshop()
    const { id }: LeaseInfo = await shop.json(['acquire', 'a:b', '--holder', 'ann'])
    const before = await contents(shop)
    for (const name of [id, 'a:b']) {
      const ended = await shop.tenure([command, name, '--holder', 'ben'])
      expectOneLine(ended, 'NOT_HOLDER', [id, '"ann"'])
    }
    const told = (await contents(shop)) as readonly HistoryEntry[]
    expect(told.filter(({ count }) => count === undefined)).toEqual(before)
    const refusals = told.filter(({ count }) => count !== undefined)
    expect(refusals.map(({ event }) => [event.holder, event.reason])).toEqual(
      command === 'renew' ? [['ben', 'renewal refused: held by ann']] : [],
    )
  })

  it.each(MISTAKEN)('%s is refused, and nothing is changed', async (_what, args, code, part) => {
    const shop = workshop()
    const api = await openedShop(shop)
    await take(api, { holder: 'ann', name: 'e:f', leaseId: LEASE })
    await api.release({ id: LEASE, holder: 'ann' })
    await take(api, { holder: 'ann', name: 'a:b' })
    await take(api, { holder: 'ben', name: 'c:d' })
    const before = await api.history({})
    expectOneLine(await shop.hosted([...args, '--holder', 'ann']), code, [part])
    expect(await api.history({})).toEqual(before)
  })

  it.each([
    ['upgrade', 'exclusive'],
    ['downgrade', 'shared'],
  ] as const)('%s of what is %s already says so and changes nothing', async (command, mode) => {
    const shop = workshop()
    const api = await openedShop(shop)
    await take(api, { holder: 'ann', name: 'a:b', mode })
    const before = await api.history({})
    const { code, stdout, stderr } = await shop.tenure([command, 'a:b', '--holder', 'ann'])
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout.split('\n')[0]).toBe(`a:b is ${mode} already: nothing changed`)
    const told = await shop.json([command, 'a:b', '--holder', 'ann'])
    expect(told).toMatchObject({ resource: 'a:b', mode, changed: false })
    expect(await api.history({})).toEqual(before)
  })

  it('a second release is refused', async () => {
    const shop = workshop()
    const { id }: LeaseInfo = await shop.json(['acquire', 'a:b', '--holder', 'ann'])
    await shop.json(['release', id, '--holder', 'ann'])
    const before = await contents(shop)
    const ended = await shop.tenure(['release', id, '--holder', 'ann'])
    expectOneLine(ended, 'LEASE_TERMINAL', [id, 'already released'])
    expect(await contents(shop)).toEqual(before)
  })

  it('a renewal after expiry is refused', async () => {
    const shop = workshop()
    const { id }: LeaseInfo = await shop.json(['acquire', 'a:b', '--holder', 'ann', '--ttl', '3s'])
    await until(async () => {
      const { state }: LeaseInfo = await shop.json(['show', id])
      return state === 'expired'
    })
    for (const command of ['renew', 'release']) {
      const ended = await shop.tenure([command, id, '--holder', 'ann'])
      expectOneLine(ended, 'LEASE_EXPIRED', [id, 'expired'])
    }
  })

  it('a renewal beyond --max-renewals is refused', async () => {
    const shop = workshop()
    const limited = ['acquire', 'a:b', '--holder', 'ann', '--max-renewals', '0']
    const { id }: LeaseInfo = await shop.json(limited)
    expectOneLine(await shop.tenure(['renew', id, '--holder', 'ann']), 'RENEWAL_LIMIT', [id])
  })

  it('an id that is in use for something else is refused', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'a:b', '--lease-id', ID])
    expectOneLine(await shop.tenure(['acquire', 'c:d', '--lease-id', ID]), 'LEASE_EXISTS', [ID])
  })
})

describe('a path that leads through a file', () => {
  it.each([
    ['keys', ['keys', 'ls', '--keys', 'file/keys.json']],
    ['tokens', ['tokens', 'ls', '--tokens', 'file/tokens.json']],
    ['the root of mcp', ['mcp', '--root', 'file/root']],
    ['a repository of serve', ['serve', '--repo', 'file/repo', '--listen', '127.0.0.1:0']],
  ])('is refused for %s', async (_what, words) => {
    const shop = workshop()
    fs.writeFileSync(path.join(shop.directory, 'file'), '')
    const ended = await shop.tenure(words)
    expectOneLine(ended, 'INVALID_INPUT', ['file/'])
  })

  it('is refused where it is a directory instead of the copy of checkpoints', async () => {
    const shop = workshop()
    await shop.json(['keys', 'generate', '--keys', 'keys.json'])
    await shop.json(['acquire', 'a:b'])
    await shop.json(['ledger', 'seal', '--keys', 'keys.json'])
    const copied = ['ledger', 'verify', '--keys', 'keys.json', '--copy', '.']
    expectOneLine(await shop.hosted(copied), 'INVALID_INPUT', ['copy must be a file'])
    fs.rmSync(`${shop.storeFile}.ledger/events.ndjson`)
    fs.mkdirSync(`${shop.storeFile}.ledger/events.ndjson`)
    const sealed = ['ledger', 'seal', '--keys', 'keys.json']
    expectOneLine(await shop.hosted(sealed), 'INVALID_INPUT', ['events.ndjson: EISDIR'])
  })
})

describe('a store that cannot be used', () => {
  it('because a file stands where a directory should is unavailable', async () => {
    const shop = workshop()
    const file = path.join(shop.directory, 'file')
    fs.writeFileSync(file, '')
    const ended = await shop.tenure(['acquire', 'a:b', '--store', `sqlite:${file}/leases.db`])
    expectOneLine(ended, 'STORE_UNAVAILABLE', [file])
  })

  it.each([
    [['ls']],
    [['why', 'a:b']],
    [['wait', 'a:b']],
    [['release', 'a:b']],
    [['watch']],
    [['ledger', 'digest']],
    [['fleet', 'ls']],
  ])('because a file stands where a directory should is unavailable to %j, too', async (words) => {
    const shop = workshop()
    const file = path.join(shop.directory, 'file')
    fs.writeFileSync(file, '')
    const ended = await shop.hosted([...words, '--store', `sqlite:${file}/leases.db`])
    expectOneLine(ended, 'STORE_UNAVAILABLE', [`${file}/leases.db cannot be used: ENOTDIR`])
  })

  it('because nobody may write there is unavailable', async () => {
    const shop = workshop()
    const ended = await shop.tenure(['acquire', 'a:b', '--store', 'sqlite:/proc/leases.db'])
    expectOneLine(ended, 'STORE_UNAVAILABLE', ['/proc/leases.db'])
  })

  it('because it is not a database is refused, and left as it is', async () => {
    const shop = workshop()
    const text = 'dear diary, '.repeat(1_000)
    fs.writeFileSync(shop.storeFile, text)
    expectOneLine(await shop.tenure(['acquire', 'a:b']), 'STORE_SCHEMA', [shop.storeFile])
    expect(fs.readFileSync(shop.storeFile, 'utf8')).toBe(text)
  })

  it('because a newer version made it is refused', async () => {
    const shop = workshop()
    await shop.json(['ls'])
    await shop.sql("INSERT INTO migrations (version, name, applied_at) VALUES (999, 'future', 0)")
    expectOneLine(await shop.tenure(['acquire', 'a:b']), 'STORE_SCHEMA', ['999'])
  })

  it('because the disk is full says so, and that nothing happened', async () => {
    const shop = workshop()
    await shop.json(['ls'])
    // No file may grow beyond what it has, which is what a full disk looks like from inside a process.
    const command = `"${process.execPath}" "${MAIN}" acquire a:b --json`
    const script = `ulimit -f 0; exec ${command} 2>&1 >/dev/null | cat`
    const { stdout } = await startProgram(['bash', '-c', script], {
      env: { TENURE_STORE: shop.storeUrl },
    }).ended
    expect(JSON.parse(stdout)).toMatchObject({ code: 'STORE_UNAVAILABLE', effect: 'none' })
    expect(await contents(shop)).toEqual([])
  })

  it('because its configuration is nonsense says which value', async () => {
    const shop = workshop()
    await shop.json(['ls'])
    const row = "WHERE config_key = 'default_ttl_seconds'"
    await shop.sql(`UPDATE lease_configs SET config_value = 'soon' ${row}`)
    const ended = await shop.tenure(['acquire', 'a:b'])
    expectOneLine(ended, 'INVALID_INPUT', ['default_ttl_seconds must be an integer', '"soon"'])
  })
})

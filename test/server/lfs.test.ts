/** A stock `git lfs` locks, lists, verifies and unlocks here, and its pushes stop at what others hold. */
import fs from 'node:fs'
import { beforeAll, expect, it } from 'vitest'
import { requireTestTool } from '../../scripts/test-tools.mjs'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { temporaryRepository, type TemporaryRepository } from '../git/temporary-repository.ts'
import type { Ended } from '../cli/tenure-process.ts'
import { serving, type Serving } from './serving.ts'

beforeAll(() => {
  requireTestTool('git-lfs')
})

interface Check {
  readonly ok: boolean
  readonly detail: string
}

interface Lfs {
  readonly repository: TemporaryRepository
  readonly served: Serving
  /** Runs `git` as somebody, whatever comes of it. */
  as(user: string, ...args: readonly string[]): Promise<Ended>
}

async function lfsIn(options: Parameters<typeof serving>[0] = {}, isKnown = true): Promise<Lfs> {
  const repository = temporaryRepository()
  const { root, write, git } = repository
  const repositories = isKnown ? { repositories: { repo: root } } : {}
  const served = await serving({ ...options, ...repositories })
  for (const name of ['src/x.ts', 'lib/y.ts', 'lib/z.ts']) write(name)
  git('add', '.')
  git('commit', '--quiet', '--message=first')
  git('lfs', 'install', '--local')
  return {
    repository,
    served,
    as: (user, ...args) => repository.attempt([...at(served, user), ...args]),
  }
}

/** The name of the user with a password behind it, or that of a user whose password nobody looks at. */
function at({ url }: Serving, user: string): readonly string[] {
  const credentials = user.includes(':') ? user : `${user}:any`
  const place = url.replace('://', `://${credentials}@`)
  return ['-c', `lfs.url=${place}/lfs/default/repo`, '-c', 'lfs.locksverify=true']
}

const UNTIL = String.raw`until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`

it('locks a file for one, tells the others who has it until when, and renews for its owner', async () => {
  const { as, served, repository } = await lfsIn()
  expect((await as('ann', 'lfs', 'lock', 'src/x.ts')).stdout).toBe('Locked src/x.ts\n')
  const body = { resource: `file:${repository.root}/src/x.ts`, holder: 'cid' }
  expect((await served.ask('POST /v1/leases', { body })).status).toBe(409)
  const refused = await as('ben', 'lfs', 'lock', 'src/x.ts')
  expect(refused.code).not.toBe(0)
  const held = `src/x.ts is held by ann ${UNTIL} \\(git lfs lock\\)`
  expect(refused.stdout + refused.stderr).toMatch(new RegExp(held))
  const again = await as('ann', 'lfs', 'lock', 'src/x.ts')
  expect([again.code, again.stdout]).toEqual([0, 'Locked src/x.ts\n'])
  const { body: listed } = await served.ask<{ leases: { renewals: number }[] }>('GET /v1/leases')
  expect(listed.leases).toMatchObject([{ holder: 'ann', renewals: 1 }])
  expect((await as('ann', 'lfs', 'locks', '--verify')).stdout).toMatch(/^O src\/x\.ts\tann until/)
  expect((await as('ben', 'lfs', 'locks', '--verify')).stdout).toMatch(/^ {2}src\/x\.ts\tann until/)
  expect((await as('ann', 'lfs', 'unlock', 'src/x.ts')).stdout).toBe('Unlocked src/x.ts\n')
  expect((await as('ben', 'lfs', 'locks')).stdout).toBe('')
})

it('stops a push of what another holds, a directory by its tracked files', async () => {
  const { as, served, repository } = await lfsIn()
  const { root, git, write, directory } = repository
  git('init', '--quiet', '--bare', `${directory}/remote.git`)
  git('remote', 'add', 'origin', `${directory}/remote.git`)
  const lease = { holder: 'cid', reason: 'big move', extent: 'subtree' }
  const lib = `file:${root}/lib`
  const taken = await served.ask<{ lease: { id: string } }>('POST /v1/leases', {
    body: { resource: lib, ...lease },
  })
  write('lib/y.ts', 'changed')
  git('commit', '--quiet', '--all', '--message=second')
  const refused = await as('ben', 'push', 'origin', 'main')
  expect(refused.code).not.toBe(0)
  expect(refused.stdout + refused.stderr).toMatch(
    new RegExp(`lib/y\\.ts - cid ${UNTIL} \\(big move\\)`),
  )
  const { id } = taken.body.lease
  await served.ask(`POST /v1/leases/${id}/release`, { body: { holder: 'cid' } })
  expect((await as('ben', 'push', 'origin', 'main')).code).toBe(0)
})

it('lets those who share a file push it', async () => {
  const { as, served, repository } = await lfsIn()
  const body = { resource: `file:${repository.root}/src/x.ts`, mode: 'shared' }
  for (const holder of ['ann', 'ben']) {
    expect((await served.ask('POST /v1/leases', { body: { ...body, holder } })).status).toBe(201)
  }
  expect((await as('ann', 'lfs', 'locks', '--verify')).stdout).toMatch(
    /^O src\/x\.ts\tann[^\n]*\n$/,
  )
  expect((await as('eve', 'lfs', 'locks', '--verify')).stdout.trim().split('\n')).toHaveLength(2)
})

interface Page {
  readonly locks?: readonly { readonly id: string; readonly path: string }[]
  readonly ours?: readonly { readonly path: string }[]
  readonly theirs?: readonly { readonly path: string }[]
  readonly next_cursor?: string
}

/** As a client asks that takes one lock at a time. */
async function page(served: Serving, line: string, body?: object): Promise<Page> {
  const response = await sent(served, line, { ...(body === undefined ? {} : { body }) })
  return (await response.json()) as Page
}

function sent(
  { url }: Serving,
  line: string,
  { body, password = 'x' }: { readonly body?: object; readonly password?: string },
): Promise<Response> {
  const [method = '', place = ''] = line.split(' ')
  return fetch(`${url}/lfs/default/repo${place}`, {
    method,
    headers: {
      'Content-Type': 'application/vnd.git-lfs+json',
      Authorization: `Basic ${Buffer.from(`ann:${password}`).toString('base64')}`,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

it('lets those who share a file push it, also where another page tells of their own share', async () => {
  const { served, repository } = await lfsIn()
  const shared = { resource: `file:${repository.root}/src/x.ts`, mode: 'shared' }
  for (const holder of ['ann', 'ben']) {
    await served.ask('POST /v1/leases', { body: { ...shared, holder } })
  }
  const first = await page(served, 'POST /locks/verify', { limit: 1 })
  const cursor = first.next_cursor
  const second = await page(served, 'POST /locks/verify', { limit: 1, cursor })
  expect([first, second].flatMap(({ ours }) => ours)).toMatchObject([{ path: 'src/x.ts' }])
  expect([first, second].flatMap(({ theirs }) => theirs)).toEqual([])
})

it('tells of every lock that stays, page by page, while others are given back', async () => {
  const { served } = await lfsIn()
  const ids = new Map<string, string>()
  for (const name of ['a', 'b', 'c', 'd']) {
    const { lock } = (await page(served, 'POST /locks', { path: name })) as {
      readonly lock: { readonly id: string }
    }
    ids.set(name, lock.id)
  }
  const first = await page(served, 'GET /locks?limit=2')
  expect(first.locks?.map(({ path }) => path)).toEqual(['a', 'b'])
  await page(served, `POST /locks/${ids.get('a')}/unlock`, {})
  const cursor = encodeURIComponent(first.next_cursor ?? '')
  const second = await page(served, `GET /locks?limit=2&cursor=${cursor}`)
  expect(second).toMatchObject({ locks: [{ path: 'c' }, { path: 'd' }] })
  expect(second.next_cursor).toBeUndefined()
})

it('counts what a token asks for, and never refuses an unlock for it', async () => {
  const runtime = { ...systemRuntime, monotonicMs: () => 0 }
  const served = await serving({ withTokens: true, runtime })
  const rights = { role: 'holder', as: ['ann'], maxRequests: 4 } as const
  const password = served.token({ name: 'ann', ...rights })
  const locked = await sent(served, 'POST /locks', { body: { path: 'a' }, password })
  const { lock } = (await locked.json()) as { readonly lock: { readonly id: string } }
  const statuses: number[] = []
  for (let asked = 0; asked < 4; asked += 1) {
    statuses.push((await sent(served, 'GET /locks', { password })).status)
  }
  expect(statuses).toContain(200)
  expect(statuses.at(-1)).toBe(429)
  const unlock = `POST /locks/${lock.id}/unlock`
  expect((await sent(served, unlock, { body: {}, password })).status).toBe(200)
})

it('counts a question once, however it is answered', async () => {
  const runtime = { ...systemRuntime, monotonicMs: () => 0 }
  const served = await serving({ withTokens: true, runtime })
  const rights = { role: 'holder', as: ['ann'], maxRequests: 3 } as const
  const password = served.token({ name: 'ann', ...rights })
  const asked = ['POST /locks', 'GET /locks', 'POST /locks/verify', 'GET /locks']
  const statuses: number[] = []
  for (const line of asked) {
    const body = line === 'POST /locks' ? { path: 'a' } : {}
    const sending = line.startsWith('POST') ? { body, password } : { password }
    statuses.push((await sent(served, line, sending)).status)
  }
  expect(statuses).toEqual([201, 200, 200, 429])
})

it('gives no lock of what others share, and one of what nobody else has', async () => {
  const { served, repository } = await lfsIn()
  const shared = { resource: `file:${repository.root}/src/x.ts`, mode: 'shared' }
  for (const holder of ['ann', 'ben']) {
    await served.ask('POST /v1/leases', { body: { ...shared, holder } })
  }
  const refused = await sent(served, 'POST /locks', { body: { path: 'src/x.ts' } })
  expect(refused.status).toBe(409)
  expect(await refused.json()).toMatchObject({
    message: expect.stringContaining('src/x.ts is held by ben until'),
  })
  expect((await sent(served, 'POST /locks', { body: { path: 'lib/y.ts' } })).status).toBe(201)
})

it('tells once of a file that a merge has left with conflicts', async () => {
  const { served, repository } = await lfsIn()
  const { root, git, write, attempt } = repository
  for (const branch of ['topic', 'main']) {
    git(
      'checkout',
      '--quiet',
      branch === 'main' ? 'main' : '-b',
      ...(branch === 'main' ? [] : [branch]),
    )
    write('lib/y.ts', branch)
    git('commit', '--quiet', '--all', `--message=${branch}`)
  }
  expect((await attempt(['merge', 'topic'])).code).toBe(1)
  const body = { resource: `file:${root}/lib`, extent: 'subtree', holder: 'ben' }
  await served.ask('POST /v1/leases', { body })
  const { locks } = await page(served, 'GET /locks')
  expect(locks?.map(({ path }) => path)).toEqual(['lib/y.ts', 'lib/z.ts'])
})

it('unlocks what is another’s for an operator who forces it, and for nobody else', async () => {
  const { as } = await lfsIn({ role: 'operator' })
  await as('ann', 'lfs', 'lock', 'src/x.ts')
  const refused = await as('ben', 'lfs', 'unlock', 'src/x.ts')
  expect(refused.code).not.toBe(0)
  expect(refused.stdout + refused.stderr).toMatch(/the lock is that of ann until/)
  expect((await as('ben', 'lfs', 'unlock', '--force', 'src/x.ts')).code).toBe(0)
  const other = await lfsIn()
  await other.as('ann', 'lfs', 'lock', 'src/x.ts')
  const forced = await other.as('ben', 'lfs', 'unlock', '--force', 'src/x.ts')
  expect(forced.stdout + forced.stderr).toMatch(/must have the role operator/)
})

it('knows repositories by their names where it does not know their files', async () => {
  const { as, served } = await lfsIn({}, false)
  expect((await as('ann', 'lfs', 'lock', 'src/x.ts')).code).toBe(0)
  const { body } = await served.ask<{ leases: { resource: string }[] }>('GET /v1/leases')
  expect(body.leases.map(({ resource }) => resource)).toEqual(['lfs:repo/src/x.ts'])
  expect((await as('ben', 'lfs', 'locks')).stdout).toMatch(/^src\/x\.ts\tann until/)
})

it('is what tenure init lfs sets up, and the doctor says whether it has the repository', async () => {
  const { repository, served } = await lfsIn()
  const { tenure, run, root } = repository
  await tenure(['init', 'lfs', '--write'])
  const file = `${root}/.lfsconfig`
  const text = fs.readFileSync(file, 'utf8')
  const place = '/lfs/default/repo'
  const checked = async (url: string, env = {}): Promise<readonly [boolean, string]> => {
    fs.writeFileSync(file, text.replace(`http://127.0.0.1:7420${place}`, url))
    const { stdout } = await run(['doctor', '--json'], { env })
    const { checks } = JSON.parse(stdout) as { checks: (Check & { name: string })[] }
    const found = checks.find(({ name }) => name === 'lfs')
    return [found?.ok ?? false, found?.detail ?? '']
  }
  const { url } = served
  expect(await checked(`${url}${place}`)).toEqual([true, `${url}${place} has the locks of ${root}`])
  const other = `${url}/lfs/default/nonsense`
  const unknown = `the server does not know the repository of ${other}: tenure serve --repo DIR`
  expect(await checked(other)).toEqual([false, unknown])
  const closed = `http://127.0.0.1:1${place}`
  expect(await checked(closed)).toEqual([
    false,
    `no server answers at ${closed}: tenure serve --repo DIR`,
  ])
  expect(await checked(`${url}/v1`)).toEqual([false, `${url}/v1 answers with 404`])
  const guarded = await serving({ withTokens: true, repositories: { repo: root } })
  const secret = guarded.token({ name: 'ann', role: 'reader' })
  const there = `${guarded.url}${place}`
  expect(await checked(there)).toEqual([
    false,
    `${there} answers with 403: the password must be a valid token (TENURE_TOKEN)`,
  ])
  expect((await checked(there, { TENURE_TOKEN: secret }))[0]).toBe(true)
  const named = there.replace('//', `//ann:${secret}@`)
  expect(await checked(named)).toEqual([true, `${there} has the locks of ${root}`])
})

it('takes a token as the password, and its holder as the user', async () => {
  const lfs = await lfsIn({ withTokens: true })
  const secret = lfs.served.token({ name: 'ann', role: 'holder', as: ['ann'] })
  expect((await lfs.as(`ann:${secret}`, 'lfs', 'lock', 'src/x.ts')).code).toBe(0)
  const other = await lfs.as(`ben:${secret}`, 'lfs', 'lock', 'lib/y.ts')
  expect(other.stdout + other.stderr).toMatch(/ann must not act as "ben"/)
})

it('ends in a line where the token is wrong, whether a URL or a helper has it', async () => {
  const { as, repository, served } = await lfsIn({ withTokens: true })
  const wrong = await as('ann:wrong', 'lfs', 'lock', 'src/x.ts')
  expect(wrong.code).not.toBe(0)
  expect(wrong.stdout + wrong.stderr).toContain('the password must be a valid token')
  const secret = served.token({ name: 'ann', role: 'holder', as: ['ann'] })
  const lock = (token: string): Promise<Ended> => {
    const url = `${served.url}/lfs/default/repo`
    const env = { TENURE_HOLDER: 'ann', TENURE_TOKEN: token }
    const settings = ['-c', `lfs.url=${url}`, '-c', `credential.${served.url}.helper=${HELPER}`]
    return repository.attempt([...settings, 'lfs', 'lock', 'src/x.ts'], { env })
  }
  const refused = await lock('wrong')
  expect(refused.stdout + refused.stderr).toContain('the password must be a valid token')
  expect((await lock(secret)).stdout).toBe('Locked src/x.ts\n')
})

/** As docs/agents.md has it. */
const [, HELPER = ''] =
  /^ {2}git config credential\.\S+\.helper \\\n {4}'(.+)'$/m.exec(
    fs.readFileSync(new URL('../../docs/agents.md', import.meta.url), 'utf8'),
  ) ?? []

interface Line {
  readonly line: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly status: number
  readonly message: RegExp
}

it('says in a line what is wrong', async () => {
  const { served } = await lfsIn()
  const basic = { Authorization: `Basic ${Buffer.from('ann:x').toString('base64')}` }
  const lines: readonly Line[] = [
    { line: 'POST /locks', headers: {}, status: 401, message: /a user and a token/ },
    { line: 'POST /locks', body: {}, status: 400, message: /^path must be/ },
    { line: 'POST /locks', body: { path: '../x' }, status: 400, message: /from the top/ },
    { line: 'POST /locks', body: { path: '/x' }, status: 400, message: /from the top/ },
    { line: 'POST /locks', body: '{', status: 400, message: /JSON/ },
    { line: 'GET /locks?cursor=x', status: 400, message: /^cursor must be/ },
    { line: 'GET /locks?limit=x', status: 400, message: /^limit must be/ },
    { line: 'POST /locks/5/unlock', body: {}, status: 400, message: /UUID/ },
    {
      line: 'POST /locks/01a1ec45-c01a-7000-a0a2-e9eec1d0a288/unlock',
      body: {},
      status: 404,
      message: /no lock has the id/,
    },
    { line: 'POST /objects/batch', body: {}, status: 501, message: /keeps locks, and no objects/ },
    { line: 'GET /nothing', status: 404, message: /the path must be locks/ },
    {
      line: 'GET /locks',
      headers: { ...basic, Origin: 'https://evil.example' },
      status: 403,
      message: /^Origin/,
    },
  ]
  for (const { line, body, headers = basic, status, message } of lines) {
    const [method = '', place = ''] = line.split(' ')
    const response = await fetch(`${served.url}/lfs/default/repo${place}`, {
      method,
      headers: { 'Content-Type': 'application/vnd.git-lfs+json', ...headers },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const answer = (await response.json()) as { message: string }
    expect([line, response.status]).toEqual([line, status])
    expect(answer.message).toMatch(message)
    const challenge = response.headers.get('LFS-Authenticate')
    expect(challenge).toBe(status === 401 ? 'Basic realm="tenure"' : null)
  }
})

/** Every line of clients does the same work over stdio and over HTTP. */
import { describe, expect, it } from 'vitest'
import { workshop } from '../cli/tenure-process.ts'
import { serving } from '../server/serving.ts'
import { ask, call, CLIENT_KINDS, httpClient, stdioClient, type McpClient } from './mcp-clients.ts'

const TOOLS = ['acquire', 'wait', 'renew', 'release', 'status', 'list'].map(
  (name) => `lease_${name}`,
)
const FILE = 'file:/repo/app.ts'

/** Ann and ben want one file. */
async function play(ann: McpClient, ben: McpClient): Promise<void> {
  const { tools } = await ann.listTools()
  expect(tools.map(({ name }) => name)).toEqual(TOOLS)
  const [as, other] = [{ holder: 'ann' }, { holder: 'ben' }]
  const wanted = { resources: [FILE, 'port:5432'], reason: 'patch 12' }
  const first = await ask(ann, 'lease_acquire', { ...wanted, ...as })
  expect(first).toMatchObject({ granted: true, leases: [{ resource: FILE }, {}] })
  const refused = await ask(ben, 'lease_acquire', { resources: [FILE], ...other })
  expect(refused).toMatchObject({
    granted: false,
    blockers: [{ holder: 'ann', reason: 'patch 12', resource: FILE }],
    next: expect.stringMatching(/held by "ann".*waitMs/),
  })
  const asked = { resources: [FILE], waitMs: 50, ...other }
  const queued = await ask(ben, 'lease_acquire', asked)
  expect(queued).toMatchObject({ granted: false, place: 1, blockers: [{ holder: 'ann' }] })
  const granted = ask(ben, 'lease_wait', { tickets: queued.tickets, ...other })
  const released = await call(ann, 'lease_release', { leases: [first.leases[0]?.id], ...as })
  expect(released).toEqual({ released: [first.leases[0]?.id], refused: [] })
  expect(await granted).toMatchObject({ granted: true, leases: [{ id: queued.tickets[0] }] })
  expect((await granted).leases[0]?.fence).toBeGreaterThan(first.leases[0]?.fence ?? 0)
  await expect(call(ben, 'lease_renew', { leases: ['5'], ...other })).rejects.toThrow(
    /leases must be a UUID, got "5"$/,
  )
  const { resources } = await ben.listResources()
  expect(resources.map(({ uri }) => uri)).toEqual(['lease://active'])
  const { contents } = await ben.readResource({ uri: 'lease://active' })
  const { leases } = JSON.parse(contents[0]?.text ?? '') as { leases: { resource: string }[] }
  expect(leases.map(({ resource }) => resource).toSorted()).toEqual([FILE, 'port:5432'])
}

/** Two subagents inside of what their session's main agent has, as its hook tells them apart. */
async function playFamily(client: McpClient): Promise<void> {
  const parent = 'claude:s/main'
  const [x, y] = ['claude:s/x', 'claude:s/y'].map((holder) => ({ holder, parent }))
  await ask(client, 'lease_acquire', { resources: ['file:/repo/src/'], holder: parent })
  const inner = { resources: ['file:/repo/src/a.ts', 'file:/repo/src/b.ts'] }
  const derived = await ask(client, 'lease_acquire', { ...inner, ...x })
  expect(derived).toMatchObject({ granted: true, leases: [{ holder: 'claude:s/x' }, {}] })
  const others = { resources: ['file:/repo/src/c.ts', 'file:/repo/src/b.ts'] }
  const refused = await ask(client, 'lease_acquire', { ...others, ...y })
  expect(refused).toMatchObject({ granted: false, blockers: [{ holder: 'claude:s/x' }] })
  const mine = await call(client, 'lease_list', { heldBy: 'claude:s/y' })
  expect(mine).toEqual({ leases: [] })
  await call(client, 'lease_release', { holder: 'claude:s/x' })
  expect((await ask(client, 'lease_acquire', { ...others, ...y })).granted).toBe(true)
  const outside = { resources: ['file:/repo/src/d.ts', 'port:5432'], ...x }
  const mixed = await ask(client, 'lease_acquire', outside)
  expect(mixed).toMatchObject({ granted: false, blockers: [{ holder: parent }] })
  const kept = await call(client, 'lease_list', { heldBy: parent })
  expect(kept).toMatchObject({ leases: [{ resource: 'file:/repo/src' }] })
}

it('derives a subagent’s leases from those of its session over HTTP', async () => {
  await playFamily(await httpClient({ line: '2.x' }, (await serving()).url))
})

it('derives a subagent’s leases from those of its session over stdio', async () => {
  const { directory: cwd, storeUrl } = workshop()
  await playFamily(await stdioClient({ line: '2.x' }, { args: ['--store', storeUrl], cwd }))
})

describe.each(Object.entries(CLIENT_KINDS))('a client of %s', (_name, kind) => {
  it('takes, is refused, waits and is given over HTTP', async () => {
    const { url } = await serving()
    await play(await httpClient(kind, url), await httpClient(kind, url))
  })

  it('takes, is refused, waits and is given over stdio', async () => {
    const { directory: cwd, storeUrl } = workshop()
    const place = { args: ['--store', storeUrl], cwd }
    await play(await stdioClient(kind, place), await stdioClient(kind, place))
  })
})

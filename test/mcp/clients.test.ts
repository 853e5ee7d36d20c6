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

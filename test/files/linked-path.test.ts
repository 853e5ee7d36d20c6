/** Links inside what another holds: a lease covers the files that are really there, and nobody is misled about it. */
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import type { FileLeases } from '../../src/files/index.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { granted, refusal, sqliteBench, temporaryDirectory } from './harness.ts'

interface Tree {
  readonly api: LeaseApi
  readonly files: FileLeases
  /** A directory, and one outside of it to which its link `linked` leads. */
  readonly repo: string
  readonly outside: string
}

async function newTree(): Promise<Tree> {
  const top = temporaryDirectory()
  const [repo, outside] = [path.join(top, 'repo'), path.join(top, 'outside')]
  fs.mkdirSync(repo)
  fs.mkdirSync(outside)
  fs.symlinkSync(outside, path.join(repo, 'linked'))
  return { ...(await sqliteBench(path.join(top, 'leases.db'))), repo, outside }
}

async function holdWhole({ api, repo }: Tree, mode: 'exclusive' | 'shared' = 'exclusive') {
  const who = { holder: 'agent-1', session: 'agent-1', waitMs: 0 } as const
  const what = { resource: parseResource(`file:${repo}`), extent: 'subtree', mode } as const
  await api.acquire({ id: randomUUID(), ...what, ...who })
}

describe('a path through a link that leads out of what another agent holds', () => {
  it('is refused by the name it was spelt with, and granted by its own', async () => {
    const tree = await newTree()
    const { files, repo, outside } = tree
    await holdWhole(tree)
    const filePath = path.join(repo, 'linked', 'x')
    const refused = refusal(await files.acquireLease({ filePath, agentId: 'agent-2' }))
    expect(refused).toMatchObject({
      error: { code: 'RESOURCE_HELD', details: { resource: `file:${outside}/x`, path: filePath } },
      holder: { agentId: 'agent-1', kind: 'lease' },
    })
    expect(refused.error.message).toBe(
      `${filePath} leads to ${outside}/x, out of file:${repo}, which agent-1 holds; ` +
        `that lease does not cover it: ask for ${outside}/x itself`,
    )
    expect(await files.isFileLocked(filePath)).toBe(true)
    expect(await files.isFileLocked(`${outside}/x`)).toBe(false)
    const own = { filePath: `${outside}/x`, agentId: 'agent-2' }
    expect(granted(await files.acquireLease(own)).filePath).toBe(`${outside}/x`)
  })

  it('is refused at once, also to an agent that would wait: nothing it waits for becomes free', async () => {
    const tree = await newTree()
    await holdWhole(tree, 'shared')
    const filePath = path.join(tree.repo, 'linked', 'x')
    const request = { filePath, agentId: 'agent-2', blocking: true, timeoutMs: 60_000 }
    expect(refusal(await tree.files.acquireLease(request)).error.code).toBe('RESOURCE_HELD')
  })

  it('is granted to that agent itself, and to anybody while nobody holds the place of the link', async () => {
    const tree = await newTree()
    const { files, repo } = tree
    const filePath = path.join(repo, 'linked', 'x')
    const free = granted(await files.acquireLease({ filePath, agentId: 'agent-2' }))
    await files.releaseLease({ leaseId: free.id, agentId: 'agent-2' })
    await holdWhole(tree)
    granted(await files.acquireLease({ filePath, agentId: 'agent-1' }))
  })
})

describe('a file whose missing parent becomes a link while it is held', () => {
  it('is not granted to another agent under the name it was leased by', async () => {
    const { files, repo, outside } = await newTree()
    const filePath = path.join(repo, 'new', 'x')
    const held = granted(await files.acquireLease({ filePath, agentId: 'agent-1' }))
    fs.symlinkSync(outside, path.join(repo, 'new'))
    const refused = refusal(await files.acquireLease({ filePath, agentId: 'agent-2' }))
    expect(refused.holder).toMatchObject({ agentId: 'agent-1', leaseId: held.id })
    const renamed = granted(await files.acquireLease({ filePath, agentId: 'agent-1' }))
    expect(renamed.filePath).toBe(`${outside}/x`)
  })
})

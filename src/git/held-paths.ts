/**
 * Which of the paths that git is about to commit or push others hold. A file is known by its canonical path, so the same
 * file in two worktrees is two resources, and a repository without a worktree has no files to hold.
 */
import { isUtf8 } from 'node:buffer'
import { byResource, coveredByOthers } from '../core/covering-leases.ts'
import { isLeaseError, pathError } from '../core/errors.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { nameOf, parseResource, type Reach, type Resource } from '../core/resource.ts'
import { canonicalPath, fs, ifThere } from '../runtime/file-system.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import { listAll } from '../service/list-all.ts'
import { topOf } from './repository.ts'

export interface HeldPath {
  /** From the top of the worktree, for people; a name that is no UTF-8 has replacement characters. */
  readonly path: string
  /** What to wait for: the file, or the nearest directory above it whose name a lease can have. */
  readonly place: Resource
  readonly lease: LeaseInfo
}

export interface GuardedChange {
  readonly holder: string
  readonly cwd: string
  /** Asked only if others hold something. */
  readonly paths: () => Promise<readonly Buffer[]>
}

export async function heldPaths(
  api: Pick<LeaseApi, 'list'>,
  { holder, cwd, paths }: GuardedChange,
): Promise<readonly HeldPath[]> {
  const live: LeaseInfo[] = []
  for await (const page of listAll(api, { state: 'active' })) live.push(...page)
  if (live.every((lease) => lease.holder === holder)) return []
  const top = await topOf(cwd)
  if (top === null) return []
  const leases = byResource(live)
  return (await paths()).flatMap((name) => {
    const held = placesOf(Buffer.concat([top, Buffer.from('/'), name])).flatMap((place) => {
      const others = coveredByOthers(leases, place, holder)
      return others.map((lease) => ({ path: name.toString(), place: place.resource, lease }))
    })
    return held.slice(0, 1)
  })
}

/**
 * A path by its spelling, and by where it is on the disk: they differ where names do not tell capitals from small letters.
 * A symbolic link is committed itself, not what it leads to.
 */
function placesOf(name: Buffer): readonly Reach[] {
  const spelt = placeOf(name)
  if (spelt.extent === 'subtree') return [spelt]
  const file = nameOf(spelt.resource)
  try {
    if (ifThere(() => fs.lstatSync(file))?.isSymbolicLink() === true) return [spelt]
    const resource = parseResource(`file:${canonicalPath(file)}`)
    return resource === spelt.resource ? [spelt] : [spelt, { resource, extent: 'exact' }]
  } catch (cause) {
    throw pathError('path', file, cause)
  }
}

/** A file whose name no lease can have is held only by the holder of a subtree above it. */
function placeOf(name: Buffer): Reach {
  let end = name.length
  for (;;) {
    const resource = resourceOf(name.subarray(0, end))
    if (resource !== null) return { resource, extent: end === name.length ? 'exact' : 'subtree' }
    end = Math.max(1, name.lastIndexOf('/', end - 1))
  }
}

/** Null for a name that is no UTF-8, has control characters, or is too long. */
function resourceOf(name: Buffer): Resource | null {
  if (!isUtf8(name)) return null
  try {
    return parseResource(`file:${name.toString()}`)
  } catch (error) {
    // No fault: there is no lease of such a name.
    if (isLeaseError(error, 'INVALID_INPUT')) return null
    throw error
  }
}

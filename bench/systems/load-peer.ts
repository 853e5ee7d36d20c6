/**
 * Loads a peer from bench/node_modules. The peers are typed by the part that is used of them, and found at run time:
 * so this repository compiles where they are not installed, and none of them can become a dependency of the package.
 */
import fs from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

/** The root of the repository, from the sources and from dist-dev/ alike. */
export const ROOT = findRoot(path.dirname(fileURLToPath(import.meta.url)))
const PEERS = path.join(ROOT, 'bench', 'package.json')

export async function loadPeer<Module>(name: string): Promise<Module> {
  const file = createRequire(PEERS).resolve(name)
  return (await import(pathToFileURL(file).href)) as Module
}

/** The packages that the manifest asks for. */
export function peerNames(): readonly string[] {
  const manifest = JSON.parse(fs.readFileSync(PEERS, 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>
  }
  return Object.keys(manifest.dependencies)
}

function findRoot(folder: string): string {
  if (fs.existsSync(path.join(folder, 'bench', 'package.json'))) return folder
  const parent = path.dirname(folder)
  if (parent === folder) throw new Error('bench/package.json is in no folder above this file')
  return findRoot(parent)
}

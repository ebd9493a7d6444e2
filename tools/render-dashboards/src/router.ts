import type { ReactNode } from 'react';

export * from 'react-router-dom';
export const CompatRouter = ({ children }: { children: ReactNode }) => children;
export const CompatRoute = ({ children }: { children: ReactNode }) => children;
